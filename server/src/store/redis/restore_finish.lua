-- Makes a restored log the room's.
-- KEYS as in `open.lua`, and 5 its list, 6 its clients. ARGV 1 a fresh epoch, 2 the node's name, 3 whether to replace
-- what is there (1 or 0), 4 its records, 5 their bytes, 6 its clients.
-- Returns 1 done, 0 when the room is there, -1 when the restored log is not as it was left.

if redis.call('HGET', KEYS[2], 'epoch') == ARGV[1] then return 1 end
local log = open()
if log.records > 0 and ARGV[3] ~= '1' then return 0 end
local records, bytes, clients = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if redis.call('LLEN', KEYS[5]) ~= records or redis.call('HLEN', KEYS[6]) ~= clients then return -1 end

redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3])
for from, to in pairs({ [5] = 1, [6] = 3 }) do
  if redis.call('PERSIST', KEYS[from]) == 1 then redis.call('RENAME', KEYS[from], KEYS[to]) end
end
settle({ replid = log.replid, epoch = counter(ARGV[1]), records = records, bytes = bytes, clients = clients })
redis.pcall('PUBLISH', KEYS[4], 'H ' .. ARGV[2] .. ' 1 0 0 0 0\n')
return 1
