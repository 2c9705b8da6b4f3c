-- wrk's requests: GET of a prediction, each for another key, as pgbench chooses them too.
local rows, thread = 1, 0

function setup(each)
    thread = thread + 1
    each:set("seed", thread)
end

function init(arguments)
    rows = tonumber(arguments[1])
    math.randomseed(os.time() * 100 + seed)
end

function request()
    return wrk.format("GET", "/" .. math.random(1, rows))
end
