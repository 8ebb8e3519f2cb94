//! A grant: what somebody may do in one room, and for how long.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use inkrelay_protocol::{Profile, Role};
use tokio::sync::watch;
use tokio::time::sleep;

use super::keys::Fingerprint;
use super::tokens::Standing;

/// The wall clock may be set while a grant waits for its end: it is looked at this often at least.
const CLOCK_LOOK: Duration = Duration::from_secs(30);

/// What whoever was admitted to a room may do there. Made by [`crate::session::Relay::admit`] alone.
#[derive(Clone, Debug)]
pub struct Grant {
    /// What it may do.
    pub role: Role,
    /// Whoever the token was made out to.
    pub subject: Option<Arc<str>>,
    /// The token's own name, by which it can be revoked.
    pub token_id: Option<Arc<str>>,
    /// The name that its participant goes by.
    pub name: Option<Arc<str>>,
    /// When it ends.
    pub expires: Option<SystemTime>,
    /// What else can end it.
    pub(super) held: Option<Held>,
}

/// The key that a grant's token was signed with, and what that is held against.
#[derive(Clone)]
pub(super) struct Held {
    pub key: Fingerprint,
    pub standing: watch::Receiver<Standing>,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("by a token")
    }
}

impl Grant {
    /// For everyone, where no tokens are asked for: it never ends.
    pub(crate) const fn open(role: Role) -> Self {
        Self { role, subject: None, token_id: None, name: None, expires: None, held: None }
    }

    /// Whether it can end at all.
    pub const fn can_end(&self) -> bool {
        self.expires.is_some() || self.held.is_some()
    }

    /// Whether it is over: expired or revoked, or its key is gone.
    pub fn has_ended(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero()) || !self.stands()
    }

    /// Ready when it is over. Never, for one that cannot end.
    pub async fn ended(&self) {
        let mut standing = self.held.as_ref().map(|held| held.standing.clone());
        loop {
            // Marked as seen before it is looked at: a change meanwhile wakes again.
            standing.iter_mut().for_each(|standing| drop(standing.borrow_and_update()));
            if self.has_ended() {
                return;
            }
            tokio::select! {
                () = pause(self.left()) => {}
                () = change(&mut standing) => {}
            }
        }
    }

    /// The profile of its participant: a token that has a name wins over what its bearer says. What would make a name
    /// look like another, or spoil what stands around it, is taken out.
    pub fn profile(&self, asked: Profile) -> Profile {
        let mut name = self.name.as_ref().map_or(asked.name, ToString::to_string);
        name.retain(is_shown);
        Profile { name, ..asked }
    }

    pub(super) fn stands(&self) -> bool {
        self.held.as_ref().is_none_or(|held| held.standing.borrow().upholds(self, held))
    }

    fn left(&self) -> Option<Duration> {
        self.expires.map(|expires| expires.duration_since(SystemTime::now()).unwrap_or_default())
    }
}

async fn pause(left: Option<Duration>) {
    match left {
        Some(left) => sleep(left.min(CLOCK_LOOK)).await,
        None => std::future::pending().await,
    }
}

async fn change(standing: &mut Option<watch::Receiver<Standing>>) {
    let changed = match standing {
        Some(standing) => standing.changed().await.is_ok(),
        None => false,
    };
    // Without a sender the server is gone.
    if !changed {
        std::future::pending().await
    }
}

/// Not a control character (Cc), a line's or paragraph's end, or what turns the direction of the text behind it (Unicode
/// Annex 9, section 2): names stand in lists, between others' words.
fn is_shown(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S-20.
    #[test]
    fn names_are_rid_of_what_nobody_sees() {
        let grant = Grant::open(Role::Drawer);
        let named = |name: &str| grant.profile(Profile { name: name.to_owned(), rgba: 7 });
        for (asked, shown) in [
            ("Ann", "Ann"),
            ("Ann\r\nBen\0\u{7f}\u{85}\t", "AnnBen"),
            ("\u{202E}nnA\u{202C}", "nnA"),
            ("\u{2066}Ann\u{2069}\u{2028}\u{2029}\u{202A}\u{202B}\u{202D}\u{2067}\u{2068}", "Ann"),
            ("\u{1b}[31mAnn", "[31mAnn"),
            ("עָנָת\u{200F} Zoë 👩\u{200D}🎨 ñ", "עָנָת\u{200F} Zoë 👩\u{200D}🎨 ñ"),
            ("\u{202E}", ""),
        ] {
            assert_eq!(named(asked), Profile { name: shown.to_owned(), rgba: 7 });
        }
        let by_token = Grant { name: Some("A\u{202E}nn\n".into()), ..Grant::open(Role::Drawer) };
        assert_eq!(by_token.profile(Profile { name: "Ben".to_owned(), rgba: 1 }).name, "Ann");
    }
}
