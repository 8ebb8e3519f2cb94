//! Settings: one list of them, which flags, the environment and a file set alike.
//!
//! The list is [`Config`], as clap reads it. The file's keys, the checks of values, `config show`, the reference in
//! `docs/CONFIGURATION.md` and what a reload compares all come from it, so that a setting added here needs nothing
//! else but its name in [`reload::RELOADABLE`] if a reload carries it out. Settings that need each other are looked at
//! in `check.rs`: clap's `requires` knows nothing of the file.

mod check;
pub mod environment;
mod file;
pub mod reference;
pub mod reload;
mod settings;
mod show;
mod values;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use inkrelay_protocol::Role;
use inkrelay_protocol::limits::DrawLimits;
use ipnet::IpNet;

use crate::access::TokenSettings;

pub use settings::{Settings, Source, Wrong};
pub use values::log_filter;
use values::{address, bytes, duration, host, network, number, operators_listen, origin, role};

/// Bytes of the secret that signs tickets, at least: whoever guesses it from a ticket of their own could sign others'.
const SECRET_BYTES: usize = 16;

/// How to serve. Every flag has a twin in the environment and in the file; 0 lifts a limit.
#[derive(Args, Clone, Debug)]
pub struct Config {
    /// File with settings, in TOML: the flags' names as keys. Flags and the environment go before it.
    #[arg(long, env = "INKRELAY_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Address and port to listen on. Any but this machine's own needs --token-keys or --open. A name, as in
    /// localhost:8080, stands for its first address, of IPv4 if it has one.
    #[arg(long, env = "INKRELAY_LISTEN", default_value = "127.0.0.1:8080", value_name = "ADDRESS",
        value_parser = address)]
    pub listen: SocketAddr,

    /// PEM file with the server's certificate, and those between it and its authority: the port then speaks TLS. The file
    /// is read again on SIGHUP, and when it was written.
    #[arg(long, env = "INKRELAY_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// PEM file with the certificate's key.
    #[arg(long, env = "INKRELAY_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// Let everyone in who reaches the address: they can read and draw in every room whose name they know.
    #[arg(long, env = "INKRELAY_OPEN")]
    pub open: bool,

    /// Address and port for operators: metrics, and a page that shows the relay live. Whoever reaches it may look into
    /// every room and delete it. `off` for none.
    #[arg(long, env = "INKRELAY_OPERATORS_LISTEN", default_value = "127.0.0.1:9090", value_name = "ADDRESS",
        value_parser = operators_listen)]
    pub operators_listen: OperatorsListen,

    /// Name under which the operators' page may be asked for, besides addresses and localhost.
    #[arg(long, env = "INKRELAY_OPERATORS_HOST", value_name = "NAME", value_delimiter = ',', value_parser = host)]
    pub operators_host: Vec<String>,

    /// How the log is written: for people, or one JSON object a line, which the greeting then is too.
    #[arg(long, env = "INKRELAY_LOG_FORMAT", default_value = "human", value_name = "FORMAT")]
    pub log_format: LogFormat,

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

    /// Secret that signs tickets, of at least 16 bytes. Without one, the store keeps a random secret for all its servers.
    // Its length is looked at in `with_secret_read`: what a parser refuses, clap shows.
    #[arg(long, env = "INKRELAY_SECRET", value_name = "TEXT", hide_env_values = true)]
    pub secret: Option<String>,

    /// File with that secret, which then stands in no list of processes.
    #[arg(long, env = "INKRELAY_SECRET_FILE", value_name = "FILE", conflicts_with = "secret")]
    pub secret_file: Option<PathBuf>,

    /// What people may do in every room, where no tokens say it: viewer, drawer or moderator.
    #[arg(long, env = "INKRELAY_ROLE", default_value = "drawer", value_name = "ROLE", value_parser = role)]
    pub role: Role,

    /// Files of keys that sign tokens: a secret, public keys in PEM, or a JWK Set. With one, nobody comes in without
    /// a token.
    #[arg(long, env = "INKRELAY_TOKEN_KEYS", value_name = "FILE", value_delimiter = ',')]
    pub token_keys: Vec<PathBuf>,

    /// What the audience (aud) of every token has to name.
    #[arg(long, env = "INKRELAY_TOKEN_AUDIENCE", value_name = "TEXT")]
    pub token_audience: Option<String>,

    /// What the issuer (iss) of every token has to be.
    #[arg(long, env = "INKRELAY_TOKEN_ISSUER", value_name = "TEXT")]
    pub token_issuer: Option<String>,

    /// File of tokens that are let in no more: a token id (jti), or sub: and a subject, on each line. It is looked at
    /// again every 2 s.
    #[arg(long, env = "INKRELAY_REVOKED", value_name = "FILE")]
    pub revoked: Option<PathBuf>,

    /// Origin whose pages may connect besides this server's own, with its scheme, or * for all. Where no tokens are asked
    /// for, its host is also a name by which this server may be asked.
    #[arg(long, env = "INKRELAY_ALLOW_ORIGIN", value_name = "https://HOST", value_parser = origin, value_delimiter = ',')]
    pub allow_origin: Vec<String>,

    /// Networks of proxies that are believed whom they speak for, by Forwarded or X-Forwarded-For. They have to set it.
    #[arg(long, env = "INKRELAY_TRUST_FORWARDED", value_name = "NETWORK", value_parser = network, value_delimiter = ',')]
    pub trust_forwarded: Vec<IpNet>,

    /// What is logged: off, error, warn, info, debug or trace, also by part, as in inkrelay_server::store=debug,info.
    #[arg(long, env = "INKRELAY_LOG", default_value = "info", value_name = "FILTER", value_parser = log_filter)]
    pub log: String,

    /// Threads that serve; 0 for one per core.
    #[arg(long, env = "INKRELAY_WORKERS", default_value_t = 0, value_name = "N",
        value_parser = clap::value_parser!(u16).range(..=1024))]
    pub workers: u16,

    /// Lift all limits of rate and count. For benchmarks only: one client can then exhaust the server.
    #[arg(long, env = "INKRELAY_UNLIMITED", conflicts_with_all = ["max_batch", "max_sessions", "max_rooms",
        "max_connections", "max_rate", "max_room", "max_address_sessions", "max_address_rooms",
        "max_address_strangers", "max_subject_rate", "max_subject_sessions", "max_subject_sockets"])]
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
    #[arg(long, env = "INKRELAY_MAX_BATCH", default_value_t = 512, value_name = "DRAWS", value_parser = number::<usize>)]
    pub max_batch: usize,

    /// Size of one message or request body, whole or in fragments.
    #[arg(long, env = "INKRELAY_MAX_MESSAGE", default_value = "256KiB", value_name = "BYTES", value_parser = bytes)]
    pub max_message: u64,

    /// Batches a second of one client over all transports, or of one address without tickets; twice as many at once.
    #[arg(long, env = "INKRELAY_MAX_RATE", default_value_t = 120, value_name = "BATCHES", value_parser = number::<u32>)]
    pub max_rate: u32,

    /// Size of one room's log.
    #[arg(long, env = "INKRELAY_MAX_ROOM", default_value = "64MiB", value_name = "BYTES", value_parser = bytes)]
    pub max_room: u64,

    /// Readers of one room on this server, and participants of one room in all.
    #[arg(long, env = "INKRELAY_MAX_SESSIONS", default_value_t = 1000, value_name = "N", value_parser = number::<usize>)]
    pub max_sessions: usize,

    /// Rooms that are live on this server at the same time.
    #[arg(long, env = "INKRELAY_MAX_ROOMS", default_value_t = 10_000, value_name = "N", value_parser = number::<usize>)]
    pub max_rooms: usize,

    /// Connections of one address. Behind a proxy they all have the proxy's.
    #[arg(long, env = "INKRELAY_MAX_CONNECTIONS", default_value_t = 1000, value_name = "N", value_parser = number::<usize>)]
    pub max_connections: usize,

    /// Sessions that one address opens in a minute. A network of IPv6 (/64) counts as one address, here and below.
    #[arg(long, env = "INKRELAY_MAX_ADDRESS_SESSIONS", default_value_t = 1200, value_name = "N", value_parser = number::<u32>)]
    pub max_address_sessions: u32,

    /// Rooms that one address brings to life in a minute.
    #[arg(long, env = "INKRELAY_MAX_ADDRESS_ROOMS", default_value_t = 600, value_name = "N", value_parser = number::<u32>)]
    pub max_address_rooms: u32,

    /// Calls of one address in a minute without a token that is taken, where tokens are asked for.
    #[arg(long, env = "INKRELAY_MAX_ADDRESS_STRANGERS", default_value_t = 60, value_name = "N", value_parser = number::<u32>)]
    pub max_address_strangers: u32,

    /// Batches a second of whoever tokens are made out to (sub), over all sessions and addresses; twice as many at once.
    #[arg(long, env = "INKRELAY_MAX_SUBJECT_RATE", default_value_t = 240, value_name = "BATCHES", value_parser = number::<u32>)]
    pub max_subject_rate: u32,

    /// Sessions that one subject of tokens opens in a minute.
    #[arg(long, env = "INKRELAY_MAX_SUBJECT_SESSIONS", default_value_t = 120, value_name = "N", value_parser = number::<u32>)]
    pub max_subject_sessions: u32,

    /// WebSockets, event streams and polls of one subject of tokens that are open at once on this server.
    #[arg(long, env = "INKRELAY_MAX_SUBJECT_SOCKETS", default_value_t = 32, value_name = "N", value_parser = number::<usize>)]
    pub max_subject_sockets: usize,

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

    /// After a room's last draw, until the room is deleted, with its bans; 0 keeps rooms for ever. A room that somebody is in stays.
    #[arg(long, env = "INKRELAY_ROOM_TTL", default_value = "0", value_name = "TIME", value_parser = duration)]
    pub room_ttl: Duration,

    /// Milliseconds for which a busy room's records are held back, to be sent together; 0 sends each at once.
    #[arg(long, env = "INKRELAY_FLUSH_MS", default_value_t = 4, value_name = "MS",
        value_parser = clap::value_parser!(u16).range(..=1000))]
    pub flush_ms: u16,

    /// After the server is told to stop, for load balancers to hear of it: it says at /readyz that it goes, and serves on.
    /// A second signal to stop ends it early.
    #[arg(long, env = "INKRELAY_DRAIN_DELAY", default_value = "0s", value_name = "TIME", value_parser = duration)]
    pub drain_delay: Duration,

    /// For everything to finish when the server is told to stop.
    #[arg(long, env = "INKRELAY_DRAIN_TIME", default_value = "10s", value_name = "TIME", value_parser = duration)]
    pub drain_time: Duration,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// Where operators are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorsListen {
    /// Nowhere.
    Off,
    /// There.
    At(SocketAddr),
}

impl OperatorsListen {
    /// Where they are served when nothing is set. Another relay on the same machine may have it, which is no reason not
    /// to serve.
    pub const DEFAULT: Self = Self::At(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9090));
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
    /// Where keys and revoked tokens stand, and for whom tokens have to be made.
    pub fn tokens(&self) -> TokenSettings {
        TokenSettings {
            keys: self.token_keys.clone(),
            revoked: self.revoked.clone(),
            audience: self.token_audience.clone(),
            issuer: self.token_issuer.clone(),
        }
    }

    /// Whether people need a token to get in.
    pub const fn has_tokens(&self) -> bool {
        !self.token_keys.is_empty()
    }

    /// With the secret from its file.
    ///
    /// # Errors
    /// When the file cannot be read, or the secret is so short that others could find it and sign tickets themselves.
    fn with_secret_read(mut self) -> Result<Self, String> {
        if let Some(path) = &self.secret_file {
            self.secret = Some(read_secret(path).map_err(|why| format!("secret-file: {why}"))?);
        }
        match &self.secret {
            Some(secret) if secret.len() < SECRET_BYTES => Err(format!(
                "secret: one that signs tickets has at least {SECRET_BYTES} bytes, and this one has {}: `openssl rand -base64 32` makes one",
                secret.len()
            )),
            _ => Ok(self),
        }
    }

    /// With `--unlimited` carried out.
    #[must_use]
    pub fn effective(mut self) -> Self {
        if self.unlimited {
            let limits = &mut self.limits;
            (limits.max_batch, limits.max_sessions, limits.max_rooms, limits.max_connections) = (0, 0, 0, 0);
            (limits.max_rate, limits.max_room) = (0, 0);
            (limits.max_address_sessions, limits.max_address_rooms, limits.max_address_strangers) = (0, 0, 0);
            (limits.max_subject_rate, limits.max_subject_sessions, limits.max_subject_sockets) = (0, 0, 0);
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

/// A secret that a file keeps, without the end of its line.
///
/// # Errors
/// When the file cannot be read.
fn read_secret(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// A size in memory's own measure.
pub fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
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

    /// Whoever sets one of them would be told nothing of its being lifted.
    #[test]
    fn what_unlimited_lifts_cannot_be_set_beside_it() {
        let lifted = Config { unlimited: true, ..Config::default() }.effective().limits;
        let lifted = format!("{lifted:?}");
        let fields = lifted.trim_end_matches(" }").split([' ', ',']).collect::<Vec<_>>();
        let lifted: Vec<_> =
            fields.windows(2).filter(|pair| pair[1] == "0").map(|pair| pair[0].replace('_', "-")).collect();
        assert!(lifted.len() >= 9, "{lifted:?}");
        for field in lifted {
            let flag = format!("--{}=1", field.trim_end_matches(':'));
            let parsed = <Alone as clap::Parser>::try_parse_from(["inkrelay", "--unlimited", &flag]);
            assert!(parsed.is_err(), "{flag}");
        }
    }

    #[test]
    fn operators_are_served_on_loopback_or_nowhere() {
        assert_eq!(Config::default().operators_listen, OperatorsListen::DEFAULT);
        assert_eq!(operators_listen("off"), Ok(OperatorsListen::Off));
        assert!(operators_listen("9090").is_err());
    }

    #[test]
    fn nothing_lifts_a_limit() {
        let limits = Limits { room_memory: 0, max_message: 0, ..Config::default().limits };
        assert_eq!((limits.tail_bytes(), limits.message_bytes()), (usize::MAX, usize::MAX));
    }

    #[test]
    fn a_short_secret_would_let_others_sign_tickets() {
        let read =
            |secret: &str| Config { secret: Some(secret.to_owned()), ..Config::default() }.with_secret_read();
        for short in ["", "of rain and ink"] {
            let why = read(short).unwrap_err();
            assert!(why.contains("16 bytes") && why.contains("openssl rand"), "{why}");
        }
        assert_eq!(read("of rain and inks").unwrap().secret.as_deref(), Some("of rain and inks"));
    }

    #[test]
    fn a_secret_is_read_from_its_file_without_the_end_of_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        let read = || Config { secret_file: Some(file.clone()), ..Config::default() }.with_secret_read();
        assert!(read().unwrap_err().contains("secret"), "there is no file");
        for short in ["\n", "of rain and ink\r\n"] {
            std::fs::write(&file, short).unwrap();
            assert!(read().unwrap_err().contains("at least 16 bytes"));
        }
        std::fs::write(&file, "of rain and of ink\n").unwrap();
        assert_eq!(read().unwrap().secret.as_deref(), Some("of rain and of ink"));
    }
}
