//! One question to Redis: a command, or a run of a script. It can be asked more than once.

use bytes::Bytes;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, RedisResult, ServerErrorKind, Value};

/// A script, and the name that Redis knows it by once it has seen it.
pub(super) struct Script {
    source: &'static str,
    hash: redis::Script,
}

impl Script {
    pub(super) fn new(source: &'static str) -> Self {
        Self { source, hash: redis::Script::new(source) }
    }
}

/// See the module's documentation.
pub(super) enum Call<'a> {
    Command { name: &'a str, args: &'a [&'a [u8]] },
    Run { script: &'a Script, keys: &'a [String], args: Vec<Bytes> },
}

impl Call<'_> {
    pub(super) async fn send(&self, connection: &mut MultiplexedConnection) -> RedisResult<Value> {
        match self {
            Self::Command { name, args } => redis::cmd(name).arg(args).query_async(connection).await,
            Self::Run { script, keys, args } => {
                match eval("EVALSHA", script.hash.get_hash(), keys, args).query_async(connection).await {
                    // Redis forgets scripts when it restarts. EVAL cannot miss, and makes it remember again.
                    Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                        eval("EVAL", script.source, keys, args).query_async(connection).await
                    }
                    answer => answer,
                }
            }
        }
    }
}

fn eval(name: &str, script: &str, keys: &[String], args: &[Bytes]) -> Cmd {
    const KEYS_BYTES: usize = 512;
    let bytes = args.iter().map(Bytes::len).sum::<usize>() + script.len() + KEYS_BYTES;
    let mut cmd = Cmd::with_capacity(3 + keys.len() + args.len(), bytes);
    cmd.arg(name).arg(script).arg(keys.len()).arg(keys);
    for arg in args {
        cmd.arg(arg.as_ref());
    }
    cmd
}
