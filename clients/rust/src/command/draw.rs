//! `inkrelay draw`: plays recorded ink into a room, as a live pen would.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use inkrelay_protocol::limits::{COORDINATE_MAX, PROFILE_NAME_CHARS};
use inkrelay_protocol::{Draw, ErrorCode, Profile};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::{CommandError, Place, TransportArg, counted};
use crate::client::{Client, ClientConfig, Event, Events};
use crate::http::{JSON, REQUEST_TIMEOUT, fetch};
use crate::ink::{self, InkStroke, InkStyle, Replay, Step};
use crate::long_poll::position_of;

/// How long nothing may be stored before the command gives up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Refused draws that are told one by one.
const REFUSALS_TOLD: usize = 5;

/// Arguments of `inkrelay draw`.
#[derive(Debug, Args)]
pub struct DrawArgs {
    #[command(flatten)]
    pub(super) place: Place,
    /// Recorded ink: InkML, or JSON arrays of points
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How many times faster than it was recorded, or max
    #[arg(long, default_value = "1", value_name = "N")]
    speed: Speed,
    /// How to talk to the server
    #[arg(long, value_enum, default_value_t = TransportArg::Auto)]
    transport: TransportArg,
    /// The name that others see
    #[arg(long)]
    name: Option<String>,
    /// The pen's colour, instead of the recorded one
    #[arg(long, value_name = "RRGGBB", value_parser = colour)]
    color: Option<u32>,
    /// The pen's width in pixels, instead of the recorded one
    #[arg(long, value_name = "PX", value_parser = width)]
    width: Option<u16>,
    /// Moves everything, in pixels
    #[arg(long, value_name = "X,Y", value_parser = offset, default_value = "0,0", allow_hyphen_values = true)]
    offset: (i32, i32),
    /// Only the stroke of that name, in files where strokes have names; may be given again
    #[arg(long, value_name = "NAME")]
    stroke: Vec<String>,
}

/// How fast time passes; `None` for not at all.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Speed(Option<f64>);

impl FromStr for Speed {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "max" {
            return Ok(Self(None));
        }
        let speed = text.parse::<f64>().ok().filter(|speed| (0.01..=1000.0).contains(speed));
        speed.map(|speed| Self(Some(speed))).ok_or("a speed is 0.01 to 1000, or max")
    }
}

fn colour(text: &str) -> Result<u32, &'static str> {
    let digits = text.strip_prefix('#').unwrap_or(text);
    let is_colour = digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let rgb = is_colour.then(|| u32::from_str_radix(digits, 16).ok()).flatten();
    rgb.map(|rgb| rgb << 8 | 0xff).ok_or("a colour is six hexadecimal digits, as in c31d1d")
}

fn width(text: &str) -> Result<u16, &'static str> {
    let width = text.parse::<f64>().ok().filter(|width| (0.0625..=4095.0).contains(width));
    width.map(|width| (width * 16.0).round() as u16).ok_or("a width is 0.0625 to 4095 pixels")
}

fn offset(text: &str) -> Result<(i32, i32), &'static str> {
    let sixteenths = |text: &str| {
        let value = text.trim().parse::<f64>().ok()? * 16.0;
        (value.abs() <= COORDINATE_MAX as f64).then(|| value.round() as i32)
    };
    let (x, y) = text.split_once(',').ok_or("an offset is x,y in pixels")?;
    sixteenths(x).zip(sixteenths(y)).ok_or("an offset is x,y in pixels")
}

pub(super) async fn run(args: DrawArgs) -> Result<(), CommandError> {
    let strokes = read(&args)?;
    let style = InkStyle { tool: None, rgba: args.color, width: args.width };
    let steps = ink::replay(&strokes, Replay { style, offset: args.offset })
        .map_err(|fault| CommandError(format!("{}: {}", fault.place, fault.why)))?;

    let mut config = ClientConfig::new(args.place.server.as_str(), args.place.room.clone());
    config.authorities = args.place.ca.clone();
    config.transport = args.transport.into();
    config.token = args.place.token.clone();
    // What is in the room already is none of this command's business.
    config.position = room_info(&args.place).await?.0;
    if let Some(name) = &args.name {
        let rgba = args.color.unwrap_or(0x0000_00ff);
        let profile = Profile::new(name.clone(), rgba);
        config.profile = Some(
            profile
                .map_err(|_| CommandError(format!("a name has at most {PROFILE_NAME_CHARS} characters")))?,
        );
    }
    let (client, events) = Client::connect(config).map_err(CommandError::new)?;
    let hopeless = Arc::new(Notify::new());
    let outcome = tokio::spawn(follow(events, Arc::clone(&hopeless)));
    let played = tokio::select! {
        played = play(&client, &steps, args.speed) => Some(played),
        () = hopeless.notified() => None,
    };
    client.close().await;
    let refused = finish(outcome).await?;
    let Some(played) = played else {
        let why = refused.last().map_or("it refused a draw", String::as_str);
        return Err(CommandError(format!("the server takes no more draws here: {why}")));
    };
    played?;

    let (_, head) = room_info(&args.place).await?;
    let stored = steps.len() - refused.len();
    let (draws, strokes) = (counted(stored, "draw"), counted(strokes.len(), "stroke"));
    println!("stored {draws} of {strokes}; the head of {} is {head}", args.place.room);
    if refused.is_empty() { Ok(()) } else { Err(tell_refused(&refused)) }
}

fn read(args: &DrawArgs) -> Result<Vec<InkStroke>, CommandError> {
    let mut strokes = Vec::new();
    for file in &args.files {
        strokes.extend(ink::read_file(file).map_err(CommandError::new)?);
    }
    if !args.stroke.is_empty() {
        let named = |name: &String| strokes.iter().any(|stroke| stroke.name.as_ref() == Some(name));
        if let Some(missing) = args.stroke.iter().find(|name| !named(name)) {
            return Err(CommandError(format!("no stroke is named {missing:?}")));
        }
        strokes.retain(|stroke| stroke.name.as_ref().is_some_and(|name| args.stroke.contains(name)));
    }
    if strokes.is_empty() { Err(CommandError::new("the files hold no strokes")) } else { Ok(strokes) }
}

/// Where the room's log ends.
async fn room_info(place: &Place) -> Result<(Option<inkrelay_protocol::Position>, u64), CommandError> {
    #[derive(serde::Deserialize)]
    struct Info {
        position: Vec<u64>,
    }
    let http = place.http()?;
    let request = place.authorize(http.request(reqwest::Method::GET, "", JSON, &[])).timeout(REQUEST_TIMEOUT);
    let (_, body) = fetch(request).await.map_err(|error| place.explain(&error))?;
    let info: Option<Info> = serde_json::from_slice(&body).ok();
    let position = info.and_then(|info| position_of(&info.position));
    let position = position.ok_or_else(|| CommandError(format!("{} is no Inkrelay server", place.server)))?;
    let seq = position.seq.get();
    Ok(((seq > 0).then_some(position), seq))
}

/// Sends every draw at its time and waits until all are stored or refused.
async fn play(client: &Client, steps: &[Step], Speed(speed): Speed) -> Result<(), CommandError> {
    let begin = Instant::now();
    for Step { at, draw } in steps {
        if let Some(speed) = speed {
            sleep_until(begin + at.div_f64(speed)).await;
        }
        push(client, draw).await?;
    }
    loop {
        let before = client.pending();
        match timeout(PATIENCE, client.flush()).await {
            Ok(flushed) => return flushed.map_err(CommandError::new),
            Err(_) if client.pending() < before => {}
            Err(_) => return Err(gave_up(before)),
        }
    }
}

async fn push(client: &Client, draw: &Draw) -> Result<(), CommandError> {
    match timeout(PATIENCE, client.draw_when_room(draw)).await {
        Ok(pushed) => pushed.map(drop).map_err(CommandError::new),
        Err(_) => Err(gave_up(client.pending())),
    }
}

fn gave_up(pending: usize) -> CommandError {
    CommandError(format!(
        "gave up: the server stored nothing for {} s, and {pending} draws wait",
        PATIENCE.as_secs()
    ))
}

/// Tells how it goes, until the client is closed; returns what was refused.
async fn follow(mut events: Events, hopeless: Arc<Notify>) -> Vec<String> {
    let mut refused = Vec::new();
    let shows_progress = std::io::stderr().is_terminal();
    let mut has_line = false;
    while let Some(event) = events.recv().await {
        match event {
            Event::Stored { through, .. } if shows_progress => {
                has_line = true;
                // Progress that cannot be shown stops nothing.
                let _ = write!(std::io::stderr(), "\r{} draws stored", through.get());
            }
            Event::Disconnected { why, retry_in } => {
                let wait_s = retry_in.as_secs_f64();
                let _ = writeln!(std::io::stderr(), "disconnected: {why}; trying again in {wait_s:.1} s");
            }
            Event::Refused { draw, code, message } => {
                refused.push(format!("draw {}: {message} ({code})", draw.get()));
                // What comes next would be refused for the same reason.
                if [ErrorCode::RoomFull, ErrorCode::Forbidden]
                    .iter()
                    .any(|hopeless| hopeless.as_str() == code)
                {
                    hopeless.notify_one();
                }
            }
            _ => {}
        }
    }
    if has_line {
        let _ = writeln!(std::io::stderr());
    }
    refused
}

async fn finish(outcome: JoinHandle<Vec<String>>) -> Result<Vec<String>, CommandError> {
    outcome.await.map_err(|_| CommandError::new("the command failed inside"))
}

fn tell_refused(refused: &[String]) -> CommandError {
    let mut text = format!("the server refused {} draws:", refused.len());
    for line in refused.iter().take(REFUSALS_TOLD) {
        text.push_str("\n  ");
        text.push_str(line);
    }
    if refused.len() > REFUSALS_TOLD {
        text.push_str("\n  and more");
    }
    CommandError(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read() {
        assert_eq!("max".parse(), Ok(Speed(None)));
        assert_eq!("2.5".parse(), Ok(Speed(Some(2.5))));
        assert!("0".parse::<Speed>().is_err() && "NaN".parse::<Speed>().is_err());
        assert_eq!(colour("#c31d1d"), Ok(0xc31d_1dff));
        assert!(colour("red").is_err() && colour("+31d1d").is_err());
        assert_eq!(width("4"), Ok(64));
        assert!(width("-1").is_err());
        assert_eq!(offset("-10, 2.5"), Ok((-160, 40)));
        assert!(offset("1").is_err() && offset("1,inf").is_err());
    }
}
