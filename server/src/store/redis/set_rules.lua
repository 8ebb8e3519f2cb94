-- Lays down a room's rules where they are those that were expected.
-- KEYS 1 rules. ARGV 1 what is expected, 2 the new ones; each empty for a room that nobody ruled.
-- Returns 1 when it did, 0 when the rules are others.

if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2]) end
return 1
