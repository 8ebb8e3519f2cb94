-- The newest number of an author that is stored: its field may tell of records that are lost.
-- ARGV 1 a fresh epoch, 2 the author.

local log = open()
if log.records == 0 then return 0 end
local field = redis.call('HGET', KEYS[3], ARGV[2])
local latest = field and latest_batch(field, log.records)
if field and not latest then distrust(log) end
if log.lost then
  recount(log)
  latest = log.found[ARGV[2]]
end
-- What was found is kept, so that the next who asks need not count a long log again.
if log.renewed then settle_if_possible(log) end
return latest and latest[2] or 0
