-- Sends what wrk is told, or, if arguments follow the address, each of them in turn: "PATH" or "PATH COOKIE". Prints what wrk
-- measured as one line of JSON. Without request() and response() nothing runs per request.
function init(arguments)
  if #arguments == 0 then return end
  local requests, last = {}, 0
  for number, line in ipairs(arguments) do
    local path, cookie = line:match("^(%S+) ?(.*)$")
    requests[number] = wrk.format("GET", path, {Host = wrk.headers.Host, Cookie = cookie ~= "" and cookie or nil})
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
