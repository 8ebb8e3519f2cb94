%% A bell: rings for those who wait for a room's next draw. As many bells as cores; a room belongs to one of them.
-module(bell).
-behaviour(gen_server).
-export([start/0, ring/2, wait/3]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% `heads`: room → number of its newest draw. `waiting`: room → #{Ref => who waits}.
-record(state, {heads = #{}, waiting = #{}}).

%% How much longer than the wait its answer may take.
-define(GRACE_MS, 5000).

start() ->
    Bells = [begin {ok, Pid} = gen_server:start_link(?MODULE, [], []), Pid end
             || _ <- lists:seq(1, erlang:system_info(schedulers))],
    persistent_term:put(?MODULE, list_to_tuple(Bells)).

%% Draw number `Seq` is in the list now.
ring(Room, Seq) ->
    gen_server:cast(bell_of(Room), {ring, Room, Seq}).

%% Returns when there is a draw after `After`, or after `Ms`.
wait(Room, After, Ms) ->
    gen_server:call(bell_of(Room), {wait, Room, After, Ms}, Ms + ?GRACE_MS).

bell_of(Room) ->
    Bells = persistent_term:get(?MODULE),
    element(1 + erlang:phash2(Room, tuple_size(Bells)), Bells).

init([]) ->
    {ok, #state{}}.

handle_call({wait, Room, After, Ms}, From, State = #state{heads = Heads, waiting = Waiting}) ->
    case maps:get(Room, Heads, 0) > After of
        true ->
            {reply, ok, State};
        false ->
            Ref = make_ref(),
            Timer = erlang:send_after(Ms, self(), {expired, Room, Ref}),
            Here = maps:get(Room, Waiting, #{}),
            {noreply, State#state{waiting = Waiting#{Room => Here#{Ref => {From, Timer}}}}}
    end.

%% Draws of two connections may ring in another order than they were stored in.
handle_cast({ring, Room, Seq}, State = #state{heads = Heads, waiting = Waiting}) ->
    Here = maps:get(Room, Waiting, #{}),
    maps:foreach(fun(_, {From, Timer}) ->
                         erlang:cancel_timer(Timer, [{async, true}, {info, false}]),
                         gen_server:reply(From, ok)
                 end,
                 Here),
    Head = max(Seq, maps:get(Room, Heads, 0)),
    {noreply, State#state{heads = Heads#{Room => Head}, waiting = maps:remove(Room, Waiting)}}.

handle_info({expired, Room, Ref}, State = #state{waiting = Waiting}) ->
    case Waiting of
        #{Room := #{Ref := {From, _}} = Here} ->
            gen_server:reply(From, ok),
            {noreply, State#state{waiting = without(Room, maps:remove(Ref, Here), Waiting)}};
        _ ->
            {noreply, State}
    end.

without(Room, Here, Waiting) when map_size(Here) =:= 0 -> maps:remove(Room, Waiting);
without(Room, Here, Waiting) -> Waiting#{Room => Here}.
