%% The relay of the rewrite: draws are binaries, kept in a Redis list and never looked at. One process per connection
%% (mochiweb's), which reads the list itself; `bell` wakes those who wait. See ../README.md.
-module(relay).
-export([start/0, handle/1]).

-define(BODY_BYTES, 1048576).
-define(DRAWS_PER_ANSWER, 1000).
-define(WAIT_SECONDS, 25).
-define(LONGEST_WAIT_SECONDS, 55).
-define(CONNECTIONS, 20000).
-define(REDIS_CONNECTIONS, 4).
-define(REDIS_MS, 5000).

%% From the command line: erl -s relay -port N -redis URL.
start() ->
    spawn(fun main/0).

%% The parent of all that is started, so that it ends with any of them, and the program with it.
main() ->
    process_flag(trap_exit, true),
    try listen() of
        _ -> receive {'EXIT', _, Reason} -> give_up(Reason) end
    catch
        _:Reason -> give_up(Reason)
    end.

give_up(Reason) ->
    io:format(standard_error, "ended: ~p~n", [Reason]),
    erlang:halt(1).

listen() ->
    {Host, RedisPort} = redis_address(argument(redis, "redis://127.0.0.1:6379")),
    Redis = [begin {ok, Pid} = eredis:start_link(Host, RedisPort), Pid end || _ <- lists:seq(1, ?REDIS_CONNECTIONS)],
    persistent_term:put(redis, list_to_tuple(Redis)),
    {ok, <<"PONG">>} = redis(["PING"]),
    ok = bell:start(),
    {ok, Server} = mochiweb_http:start([{name, ?MODULE},
                                        {ip, {127, 0, 0, 1}},
                                        {port, list_to_integer(argument(port, "0"))},
                                        {max, ?CONNECTIONS},
                                        {backlog, 1024},
                                        {nodelay, true},
                                        {loop, {?MODULE, handle}}]),
    io:format("listening on http://127.0.0.1:~b~n", [mochiweb_socket_server:get(Server, port)]).

argument(Name, Default) ->
    case init:get_argument(Name) of
        {ok, [[Value] | _]} -> Value;
        _ -> Default
    end.

redis_address(Url) ->
    #{host := Host} = Parts = uri_string:parse(Url),
    {Host, maps:get(port, Parts, 6379)}.

handle(Request) ->
    case mochiweb_request:get(path, Request) of
        "/rooms/" ++ Rest ->
            case string:split(Rest, "/") of
                [Room, "draws"] when Room =/= "" -> draws(list_to_binary(Room), Request);
                _ -> refuse(404, Request)
            end;
        _ ->
            refuse(404, Request)
    end.

draws(Room, Request) ->
    case mochiweb_request:get(method, Request) of
        'POST' -> add_draw(Room, Request);
        'GET' -> poll_draws(Room, Request);
        _ -> refuse(405, Request)
    end.

add_draw(Room, Request) ->
    Draw = mochiweb_request:recv_body(?BODY_BYTES, Request),
    {ok, Length} = redis(["RPUSH", key(Room), Draw]),
    Seq = binary_to_integer(Length),
    bell:ring(Room, Seq),
    answer("application/json", ["{\"seq\":", Length, "}"], Request).

poll_draws(Room, Request) ->
    Query = mochiweb_request:parse_qs(Request),
    After = max(0, number("after", Query, 0)),
    Wait = min(max(0, number("wait", Query, ?WAIT_SECONDS)), ?LONGEST_WAIT_SECONDS),
    Draws =
        case read_draws(Room, After) of
            [] ->
                ok = bell:wait(Room, After, Wait * 1000),
                read_draws(Room, After);
            Some ->
                Some
        end,
    answer("application/msgpack", [16#92, integer(After + 1), array(length(Draws)) | Draws], Request).

read_draws(Room, After) ->
    {ok, Draws} = redis(["LRANGE", key(Room), After, After + ?DRAWS_PER_ANSWER - 1]),
    Draws.

key(Room) -> [<<"draws:">>, Room].

%% Each connection keeps to one of the connections to Redis, which take many commands at once.
redis(Command) ->
    Redis = persistent_term:get(redis),
    eredis:q(element(1 + erlang:phash2(self(), tuple_size(Redis)), Redis), Command, ?REDIS_MS).

number(Name, Query, Default) ->
    case string:to_integer(proplists:get_value(Name, Query, "")) of
        {Number, []} when is_integer(Number) -> Number;
        _ -> Default
    end.

%% The two things of MessagePack that the server itself writes.
integer(N) when N < 16#80 -> <<N>>;
integer(N) when N < 16#100000000 -> <<16#ce, N:32>>;
integer(N) -> <<16#cf, N:64>>.

array(N) when N < 16 -> <<(16#90 + N)>>;
array(N) -> <<16#dc, N:16>>.

answer(Type, Body, Request) ->
    mochiweb_request:respond({200, [{"Content-Type", Type}, {"Cache-Control", "no-store"}], Body}, Request).

refuse(Status, Request) ->
    mochiweb_request:respond({Status, [{"Content-Type", "text/plain"}], <<"no\n">>}, Request).
