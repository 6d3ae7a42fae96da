-- Prints what wrk measured as one line of JSON. Without request() and response() nothing runs per request.
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '{"duration":%d,"requests":%d,"p50":%d,"p99":%d,"max":%d,"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}\n',
    summary.duration, summary.requests, latency:percentile(50), latency:percentile(99), latency.max,
    e.connect, e.read, e.write, e.status, e.timeout))
end
