-- Counts what is not the answer to /hello, thread by thread, and prints the sum. For wrk.

local threads = {}

function setup(thread)
	table.insert(threads, thread)
end

function init()
	wrong = 0
end

function response(status, _, body)
	if status ~= 200 or body ~= "hello" then
		wrong = wrong + 1
	end
end

function done(summary)
	local sum = 0
	for _, thread in ipairs(threads) do
		sum = sum + thread:get("wrong")
	end
	local errors = summary.errors
	print("requests " .. summary.requests)
	print("failed " .. sum + errors.connect + errors.read + errors.write + errors.status + errors.timeout)
end
