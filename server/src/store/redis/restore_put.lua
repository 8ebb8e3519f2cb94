-- Adds to a log that is being restored, which nobody knows yet, and which goes away by itself when nothing more comes.
-- KEYS 1 its list, 2 its clients. ARGV 1 seconds after which it goes away, 2 how many records it has, 3 how many follow;
-- then these, and then authors with their latest batches.
-- Returns 1, or 0 when it is not as it was left.

local count = tonumber(ARGV[3])
local before, now = tonumber(ARGV[2]), redis.call('LLEN', KEYS[1])
if now == before then
  for from = 4, 3 + count, SLICE do
    redis.call('RPUSH', KEYS[1], unpack(ARGV, from, math.min(from + SLICE - 1, 3 + count)))
  end
elseif now ~= before + count then
  return 0
end
for from = 4 + count, #ARGV, SLICE do
  redis.call('HSET', KEYS[2], unpack(ARGV, from, math.min(from + SLICE - 1, #ARGV)))
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
redis.call('EXPIRE', KEYS[2], ARGV[1])
return 1
