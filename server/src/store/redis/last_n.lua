-- The newest number of an author that is stored: its field may tell of records that are lost.
-- ARGV 1 a fresh epoch, 2 the author. Writes nothing.

local log = open()
if log.records == 0 then return 0 end
if log.lost then
  recount(log)
  local latest = log.found[ARGV[2]]
  return latest and latest[2] or 0
end
local field = redis.call('HGET', KEYS[3], ARGV[2])
local latest = field and latest_batch(field)
return latest and latest[2] or 0
