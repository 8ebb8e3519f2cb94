//! `inkrelay moderate`: what moderators do in a room.

use clap::{Args, Subcommand};
use inkrelay_protocol::ClientId;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{CommandError, Place, counted};
use crate::http::{JSON, fetch};

/// Times that a long erasure is asked after; the server holds each for some seconds.
const TURNS_MAX: usize = 1000;

/// Arguments of `inkrelay moderate`.
#[derive(Debug, Args)]
pub struct ModerateArgs {
    #[command(flatten)]
    pub(super) place: Place,
    #[command(subcommand)]
    action: Action,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum Action {
    /// Tell whether the room is locked, and who is banned
    Show,
    /// Let only moderators draw from now on
    Lock,
    /// Let everyone draw again
    Unlock,
    /// End what a participant has open; it may come back
    Kick {
        /// The participant's number, as `watch` and the room's info tell it
        client: u64,
    },
    /// Keep somebody out
    Ban(Who),
    /// Let somebody in again
    Unban(Who),
    /// Hide all that an author drew; 0 is everyone without a ticket
    Erase {
        /// The author's number
        client: u64,
    },
    /// Hide all that anyone drew
    Clear,
}

/// Whom a ban means.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Who {
    /// A participant's number: good as long as it comes with its ticket
    client: Option<u64>,
    /// Whoever comes with a token that is made out to that subject
    #[arg(long, value_name = "NAME")]
    subject: Option<String>,
}

#[derive(Deserialize)]
struct Told {
    locked: bool,
    banned_clients: Vec<u64>,
    banned_subjects: Vec<String>,
    erased: Option<usize>,
    read: Option<u64>,
    of: Option<u64>,
    done: Option<bool>,
    #[serde(default)]
    records: Vec<(u64, u64)>,
}

pub(super) async fn run(args: ModerateArgs) -> Result<(), CommandError> {
    let asked = match &args.action {
        Action::Show => None,
        Action::Lock => Some(json!({"action": "lock"})),
        Action::Unlock => Some(json!({"action": "unlock"})),
        Action::Kick { client } => Some(json!({"action": "kick", "client": number(*client)?})),
        Action::Ban(who) => Some(who.json("ban")?),
        Action::Unban(who) => Some(who.json("unban")?),
        Action::Erase { client } => Some(json!({"action": "erase", "client": number(*client)?})),
        Action::Clear => Some(json!({"action": "clear"})),
    };
    for _ in 0..TURNS_MAX {
        let told = ask(&args.place, asked.as_ref()).await?;
        match (&args.action, told.done) {
            (Action::Erase { .. }, Some(false)) => {
                eprintln!("read {} of {} records", told.read.unwrap_or(0), told.of.unwrap_or(0));
            }
            _ => {
                println!("{}", told.words(&args.action));
                return Ok(());
            }
        }
    }
    Err(CommandError::new("the server is still at it; ask again later"))
}

async fn ask(place: &Place, asked: Option<&Value>) -> Result<Told, CommandError> {
    let http = place.http()?;
    let method = if asked.is_some() { Method::POST } else { Method::GET };
    let mut request = http.request(method, "moderation", JSON, &[]);
    if let Some(asked) = asked {
        request = request.header(CONTENT_TYPE, JSON).body(asked.to_string());
    }
    let (_, body) = fetch(place.authorize(request)).await.map_err(|error| place.explain(&error))?;
    serde_json::from_slice(&body)
        .map_err(|error| CommandError(format!("{}: the answer cannot be read: {error}", place.server)))
}

fn number(client: u64) -> Result<u64, CommandError> {
    ClientId::new(client)
        .map(ClientId::get)
        .ok_or_else(|| CommandError::new("a participant's number is at most 2^48 - 1"))
}

impl Who {
    fn json(&self, action: &str) -> Result<Value, CommandError> {
        Ok(match (self.client, &self.subject) {
            (Some(client), _) => json!({"action": action, "client": number(client)?}),
            (None, subject) => json!({"action": action, "subject": subject}),
        })
    }
}

impl Told {
    /// What there is to say, in lines.
    fn words(&self, action: &Action) -> String {
        let records = || {
            let names: Vec<_> = self.records.iter().map(|(author, n)| format!("[{author}, {n}]")).collect();
            format!("; to take it back, revoke {}", names.join(", "))
        };
        match action {
            Action::Kick { client } => format!("kicked {client}"),
            Action::Clear => format!("cleared{}", records()),
            Action::Erase { client } => match self.erased.unwrap_or(0) {
                0 => format!("nothing of {client} shows"),
                erased => format!("erased {} of {client}{}", counted(erased, "stroke"), records()),
            },
            _ => {
                let mut lines = vec![if self.locked { "locked" } else { "not locked" }.to_owned()];
                lines.extend(self.banned_clients.iter().map(|client| format!("banned: {client}")));
                lines.extend(self.banned_subjects.iter().map(|subject| format!("banned: {subject:?}")));
                lines.join("\n")
            }
        }
    }
}
