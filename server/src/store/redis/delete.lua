-- Deletes a room: its log, which is named by its record at a place, so that a repetition cannot delete the next log,
-- and its rules. KEYS as in `open.lua`, and 5 the rules.
-- ARGV 1 the node's name, 2 a time: delete it only when its last record (without records, its rules) is from before and
-- no server watches it (or '': in any case), 3 the place (0: only tell what to name it by), 4 the name.
-- Returns the number of records and the name of the last one, or 1 deleted, 0 it stays, -1 it is gone.
-- Where there are no records, the first call deletes the rules: then it is { 0, 1 deleted or 0 it stays }.

local function name_at(place)
  local record = redis.call('LINDEX', KEYS[1], place - 1)
  return record and redis.sha1hex(record)
end

-- Whether what was last changed then may be deleted.
local function may_go(at)
  local before = tonumber(ARGV[2])
  if not before then return true end
  if not at or at == 0 or at >= before then return false end
  return redis.call('PUBSUB', 'NUMSUB', KEYS[4])[2] == 0
end

-- When the rules were changed: see `store/rules.rs`.
local function ruled_at()
  local rules = redis.call('GET', KEYS[5])
  local is_read, fields = pcall(cmsgpack.unpack, rules or '')
  return is_read and type(fields) == 'table' and tonumber(fields[6])
end

local place = tonumber(ARGV[3])
if place == 0 then
  local records = redis.call('LLEN', KEYS[1])
  if records > 0 then return { records, name_at(records) } end
  return { 0, may_go(ruled_at()) and redis.call('DEL', KEYS[5]) or 0 }
end
if name_at(place) ~= ARGV[4] then return -1 end

local _, _, at = identity(redis.call('LINDEX', KEYS[1], -1))
if not may_go(at) then return 0 end
-- A long list is freed by another thread of Redis. None of this needs memory, so that a full Redis can be emptied.
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[5])
redis.pcall('PUBLISH', KEYS[4], 'H ' .. ARGV[1] .. ' 1 0 0 0 0\n')
return 1
