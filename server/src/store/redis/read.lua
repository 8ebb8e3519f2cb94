-- Reads a stretch of a log together with its head.
-- ARGV 1 a fresh epoch, 2 the first seq, 3 the most records (0: the head alone), 4 the most bytes.
-- Returns epoch, records in the log, bytes, the last record (or false), and the stretch.

local log = open()
if log.records == 0 then return { log.epoch, 0, 0, false, {} } end
if log.lost then recount(log) end
if log.renewed then settle_if_possible(log) end

local stretch, bytes = {}, 0
local from, most, most_bytes = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local last = math.min(from + most - 1, log.records)
while from <= last and bytes <= most_bytes do
  local upto = math.min(from + 63, last)
  for _, record in ipairs(redis.call('LRANGE', KEYS[1], from - 1, upto - 1)) do
    bytes = bytes + #record
    if #stretch > 0 and bytes > most_bytes then break end
    stretch[#stretch + 1] = record
  end
  from = upto + 1
end
return { log.epoch, log.records, log.bytes, redis.call('LINDEX', KEYS[1], -1), stretch }
