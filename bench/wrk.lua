-- Sends what wrk is told, or, if arguments follow the address, each of them in turn: METHOD, PATH, COOKIE, TYPE and BODY with tabs
-- between them, the body as in a URL. Prints what wrk measured as one line of JSON. Without request() and response() nothing runs per request.
local function part(text) return text ~= "" and text or nil end

function init(arguments)
  if #arguments == 0 then return end
  local requests, last = {}, 0
  for number, line in ipairs(arguments) do
    local method, path, cookie, kind, coded = line:match("^([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t(.*)$")
    local body = coded:gsub("%%(%x%x)", function(code) return string.char(tonumber(code, 16)) end)
    local headers = {Host = wrk.headers.Host, Cookie = part(cookie), ["Content-Type"] = part(kind)}
    requests[number] = wrk.format(method, path, headers, part(body))
  end
  function request()
    last = last % #requests + 1
    return requests[last]
  end
end

function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '{"duration":%d,"requests":%d,"p50":%d,"p99":%d,"max":%d,"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}\n',
    summary.duration, summary.requests, latency:percentile(50), latency:percentile(99), latency.max,
    e.connect, e.read, e.write, e.status, e.timeout))
end
