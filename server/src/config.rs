//! Settings: flags and their environment twins, checked once at the start.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use inkrelay_protocol::Role;
use inkrelay_protocol::limits::DrawLimits;

/// How to serve. Every flag has an environment twin; 0 lifts a limit.
#[derive(Args, Clone, Debug)]
pub struct Config {
    /// Address and port to listen on.
    #[arg(long, env = "INKRELAY_LISTEN", default_value = "127.0.0.1:8080", value_name = "ADDRESS")]
    pub listen: SocketAddr,

    /// Folder of the embedded store, which keeps draws when nothing else is chosen.
    #[arg(long, env = "INKRELAY_DATA", default_value = "./inkrelay-data", value_name = "DIR")]
    pub data: PathBuf,

    /// When the embedded store syncs to disk: before every ack, or once a second, which may lose the last
    /// second in a power cut.
    #[arg(long, env = "INKRELAY_SYNC", default_value = "always", value_name = "WHEN")]
    pub sync: SyncSetting,

    /// Keep draws in memory only.
    #[arg(long, env = "INKRELAY_MEMORY", conflicts_with = "redis")]
    pub memory: bool,

    /// Keep draws in Redis, where many servers share them.
    #[arg(long, env = "INKRELAY_REDIS", value_name = "URL", hide_env_values = true)]
    pub redis: Option<String>,

    /// Secret that signs tickets. Without one, the store keeps a random secret for all its servers.
    #[arg(long, env = "INKRELAY_SECRET", value_name = "TEXT", hide_env_values = true)]
    pub secret: Option<String>,

    /// What people may do in every room: viewer, drawer or moderator.
    #[arg(long, env = "INKRELAY_ROLE", default_value = "drawer", value_name = "ROLE", value_parser = role)]
    pub role: Role,

    /// Origin whose pages may connect besides this server's own, with its scheme, or * for all.
    #[arg(long, env = "INKRELAY_ALLOW_ORIGIN", value_name = "https://HOST", value_parser = origin, value_delimiter = ',')]
    pub allow_origin: Vec<String>,

    /// Threads that serve; 0 for one per core.
    #[arg(long, env = "INKRELAY_WORKERS", default_value_t = 0, value_name = "N",
        value_parser = clap::value_parser!(u16).range(..=1024))]
    pub workers: u16,

    /// Lift all limits of rate and count. For benchmarks only: one client can then exhaust the server.
    #[arg(long, env = "INKRELAY_UNLIMITED")]
    pub unlimited: bool,

    /// What is refused, and when.
    #[command(flatten)]
    pub limits: Limits,

    /// How long the server waits for what.
    #[command(flatten)]
    pub times: Times,
}

/// Sizes, counts and rates. 0 is no limit.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Limits (0 lifts one)")]
pub struct Limits {
    /// Size of one draw.
    #[arg(long, env = "INKRELAY_MAX_DRAW", default_value = "64KiB", value_name = "BYTES", value_parser = bytes)]
    pub max_draw: u64,

    /// Draws in one batch.
    #[arg(long, env = "INKRELAY_MAX_BATCH", default_value_t = 512, value_name = "DRAWS")]
    pub max_batch: usize,

    /// Size of one message or request body, whole or in fragments.
    #[arg(long, env = "INKRELAY_MAX_MESSAGE", default_value = "256KiB", value_name = "BYTES", value_parser = bytes)]
    pub max_message: u64,

    /// Batches a second of one client over all transports, or of one address without tickets; twice as many at once.
    #[arg(long, env = "INKRELAY_MAX_RATE", default_value_t = 120, value_name = "BATCHES")]
    pub max_rate: u32,

    /// Size of one room's log.
    #[arg(long, env = "INKRELAY_MAX_ROOM", default_value = "64MiB", value_name = "BYTES", value_parser = bytes)]
    pub max_room: u64,

    /// Readers of one room on this server, and participants of one room in all.
    #[arg(long, env = "INKRELAY_MAX_SESSIONS", default_value_t = 1000, value_name = "N")]
    pub max_sessions: usize,

    /// Rooms that are live on this server at the same time.
    #[arg(long, env = "INKRELAY_MAX_ROOMS", default_value_t = 10_000, value_name = "N")]
    pub max_rooms: usize,

    /// Connections of one address. Behind a proxy they all have the proxy's.
    #[arg(long, env = "INKRELAY_MAX_CONNECTIONS", default_value_t = 1000, value_name = "N")]
    pub max_connections: usize,

    /// Memory for one room's recent records.
    #[arg(long, env = "INKRELAY_ROOM_MEMORY", default_value = "256KiB", value_name = "BYTES", value_parser = bytes)]
    pub room_memory: u64,

    /// Memory for all rooms' recent records.
    #[arg(long, env = "INKRELAY_MEMORY_BUDGET", default_value = "128MiB", value_name = "BYTES", value_parser = bytes)]
    pub memory_budget: u64,
}

/// How long the server waits for what.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Times")]
pub struct Times {
    /// For the first request's header, also when nothing comes at all.
    #[arg(long, env = "INKRELAY_HEADER_TIME", default_value = "5s", value_name = "TIME", value_parser = duration)]
    pub header_time: Duration,

    /// For the next request on a connection.
    #[arg(long, env = "INKRELAY_KEEP_ALIVE", default_value = "60s", value_name = "TIME", value_parser = duration)]
    pub keep_alive: Duration,

    /// For a request's whole body.
    #[arg(long, env = "INKRELAY_BODY_TIME", default_value = "10s", value_name = "TIME", value_parser = duration)]
    pub body_time: Duration,

    /// For a WebSocket's first frame.
    #[arg(long, env = "INKRELAY_FIRST_FRAME_TIME", default_value = "5s", value_name = "TIME", value_parser = duration)]
    pub first_frame_time: Duration,

    /// For any sign of life on a WebSocket; half of it after which the client is pinged.
    #[arg(long, env = "INKRELAY_IDLE_TIME", default_value = "40s", value_name = "TIME", value_parser = duration)]
    pub idle_time: Duration,

    /// After which a reader that was sent nothing gets a heartbeat.
    #[arg(long, env = "INKRELAY_HEARTBEAT", default_value = "20s", value_name = "TIME", value_parser = duration)]
    pub heartbeat: Duration,

    /// For a reader that takes nothing of what it is sent.
    #[arg(long, env = "INKRELAY_STALL_TIME", default_value = "30s", value_name = "TIME", value_parser = duration)]
    pub stall_time: Duration,

    /// After the last one left, until a room is dropped from memory.
    #[arg(long, env = "INKRELAY_ROOM_IDLE", default_value = "60s", value_name = "TIME", value_parser = duration)]
    pub room_idle: Duration,

    /// Milliseconds for which a busy room's records are held back, to be sent together; 0 sends each at once.
    #[arg(long, env = "INKRELAY_FLUSH_MS", default_value_t = 4, value_name = "MS",
        value_parser = clap::value_parser!(u16).range(..=1000))]
    pub flush_ms: u16,

    /// After the server is told to stop, for load balancers to hear of it: it says at /readyz that it goes, and serves on.
    #[arg(long, env = "INKRELAY_DRAIN_DELAY", default_value = "0s", value_name = "TIME", value_parser = duration)]
    pub drain_delay: Duration,

    /// For everything to finish when the server is told to stop.
    #[arg(long, env = "INKRELAY_DRAIN_TIME", default_value = "10s", value_name = "TIME", value_parser = duration)]
    pub drain_time: Duration,
}

/// When the embedded store syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SyncSetting {
    /// Before every ack.
    Always,
    /// Once a second.
    Interval,
}

#[derive(clap::Parser)]
struct Alone {
    #[command(flatten)]
    config: Config,
}

impl Default for Config {
    /// What holds when nothing is set, but for the environment.
    fn default() -> Self {
        <Alone as clap::Parser>::parse_from(["inkrelay"]).config
    }
}

impl Config {
    /// With `--unlimited` carried out.
    #[must_use]
    pub fn effective(mut self) -> Self {
        if self.unlimited {
            let limits = &mut self.limits;
            (limits.max_batch, limits.max_sessions, limits.max_rooms, limits.max_connections) = (0, 0, 0, 0);
            (limits.max_rate, limits.max_room) = (0, 0);
        }
        self
    }
}

impl Limits {
    /// What the door holds draws against.
    pub fn draws(&self) -> DrawLimits {
        DrawLimits { bytes_per_draw: to_usize(self.max_draw), draws_per_batch: self.max_batch }
    }

    /// Bytes of one room's recent records; a tail needs a number even where there is no limit.
    pub fn tail_bytes(&self) -> usize {
        if self.room_memory == 0 { usize::MAX } else { to_usize(self.room_memory) }
    }

    /// Bytes of one message or body; a WebSocket needs a number even where there is no limit.
    pub fn message_bytes(&self) -> usize {
        if self.max_message == 0 { usize::MAX } else { to_usize(self.max_message) }
    }
}

/// A size in memory's own measure.
pub fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn origin(text: &str) -> Result<String, String> {
    let authority = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_origin = text == "*" || authority.is_some_and(|host| !host.is_empty() && !host.contains('/'));
    if is_origin {
        Ok(text.to_owned())
    } else {
        Err("write it like https://draw.example, without a path, or *".to_owned())
    }
}

fn role(text: &str) -> Result<Role, String> {
    text.parse().map_err(str::to_owned)
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write it like 500ms, 5s or 2min"))
}

fn bytes(text: &str) -> Result<u64, String> {
    let size: bytesize::ByteSize =
        text.parse().map_err(|error| format!("{error}; write it like 65536, 64KiB or 1MB"))?;
    Ok(size.as_u64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_has_a_twin_in_the_environment() {
        let command = <Alone as clap::CommandFactory>::command();
        for arg in command.get_arguments().filter(|arg| arg.get_id() != "help") {
            let flag = arg.get_long().unwrap().to_uppercase().replace('-', "_");
            let twin = format!("INKRELAY_{flag}");
            assert_eq!(arg.get_env().map(|env| env.to_string_lossy().into_owned()), Some(twin));
        }
    }

    #[test]
    fn nothing_lifts_a_limit() {
        let limits = Limits { room_memory: 0, max_message: 0, ..Config::default().limits };
        assert_eq!((limits.tail_bytes(), limits.message_bytes()), (usize::MAX, usize::MAX));
    }

    #[test]
    fn sizes_and_times_are_read_as_people_write_them() {
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(bytes("1000"), Ok(1000));
        assert!(bytes("many").is_err());
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert!(duration("5").is_err());
    }
}
