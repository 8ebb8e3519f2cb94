-- Appends batches, whole or not at all: whatever can fail is done before the first write.
-- KEYS 1 log, 2 meta, 3 clients, 4 channel.
-- ARGV 1 a fresh epoch, 2 the node's name, 3 the most bytes to publish, 4 how often the node itself is
-- subscribed, 5 how many batches; then for each batch its author, first n, number of records, and the records.
-- Returns epoch, seq before, the record before (or false), bytes, and for each batch
-- { new, first seq or -1, last n, last seq } or { -1, expected n }.

local log = open()
local before_seq = log.records
local before = redis.call('LINDEX', KEYS[1], -1)

local batches, authors, place = tonumber(ARGV[5]), {}, 6
for _ = 1, batches do
  if ARGV[place] ~= '0' then authors[#authors + 1] = ARGV[place] end
  place = place + 3 + tonumber(ARGV[place + 2])
end
local latest_of = {}
for from = 1, #authors, SLICE do
  local last = math.min(from + SLICE - 1, #authors)
  for i, field in ipairs(redis.call('HMGET', KEYS[3], unpack(authors, from, last))) do
    local latest = field and latest_batch(field, log.records)
    if field and not latest then distrust(log) end
    latest_of[authors[from + i - 1]] = latest or nil
  end
end
if log.lost then
  recount(log)
  latest_of = log.found
end

local outcomes, new, touched, new_bytes = {}, {}, {}, 0
place = 6
for batch = 1, batches do
  local author, first_n, count = ARGV[place], tonumber(ARGV[place + 1]), tonumber(ARGV[place + 2])
  local last_n, records = first_n + count - 1, place + 3
  place = records + count
  local named = author ~= '0'
  local known = named and latest_of[author]
  local expected = not named and first_n or known and known[2] + 1 or 1

  -- Where the author's draw n stands, when it is of the latest batch, whose records stand together.
  local function seq_of(n)
    return known and n >= known[1] and n <= known[2] and known[3] - (known[2] - n) or -1
  end

  if first_n > expected then
    outcomes[batch] = { -1, expected }
  elseif known and last_n <= known[2] then
    outcomes[batch] = { 0, seq_of(first_n), known[2], known[3] }
  else
    local skip = expected - first_n
    local first_seq = skip == 0 and log.records + 1 or seq_of(first_n)
    for i = records + skip, place - 1 do
      new[#new + 1] = ARGV[i]
      new_bytes = new_bytes + #ARGV[i]
    end
    log.records = log.records + count - skip
    if named then
      if not known then log.clients = log.clients + 1 end
      latest_of[author] = { expected, last_n, log.records }
      touched[author] = latest_of[author]
    end
    outcomes[batch] = { count - skip, first_seq, last_n, log.records }
  end
end

log.bytes = log.bytes + new_bytes
local reply = { log.epoch, before_seq, before, log.bytes, outcomes }
-- A room in which nothing was ever drawn leaves no trace, whatever was refused.
if #new == 0 and (not log.renewed or log.records == 0) then return reply end

settle(log)
for from = 1, #new, SLICE do
  redis.call('RPUSH', KEYS[1], unpack(new, from, math.min(from + SLICE - 1, #new)))
end
if not log.found then keep_latest(touched) end

-- Published only when somebody else hears it, and a hint only: a user who may not ask, or not publish, has stored
-- the records all the same. Whoever hears it at a replica is not counted here.
local function is_heard()
  if log.has_replicas then return true end
  local heard = redis.pcall('PUBSUB', 'NUMSUB', KEYS[4])
  return heard.err or heard[2] > tonumber(ARGV[4])
end
if #new > 0 and is_heard() then
  local author, n, at = 0, 0, 0
  if before then author, n, at = identity(before) end
  local kind, body = 'A', ''
  if not author or new_bytes > tonumber(ARGV[3]) then kind = 'H' else body = table.concat(new) end
  local head = table.concat({ kind, ARGV[2], text(log.epoch), text(before_seq),
    text(author or 0), text(n or 0), text(at or 0) }, ' ')
  redis.pcall('PUBLISH', KEYS[4], head .. '\n' .. body)
end
return reply
