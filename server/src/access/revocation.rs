//! Revocation: a file that lists token ids and subjects that are let in no more.

use std::collections::HashSet;
use std::path::Path;

/// Bytes of the file at most.
const FILE_BYTES: usize = 8 << 20;
/// Before a subject, in the file.
const SUBJECT: &str = "sub:";

/// Token ids and subjects that are let in no more.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Revoked {
    token_ids: HashSet<Box<str>>,
    subjects: HashSet<Box<str>>,
}

impl Revoked {
    /// Reads a list: one token id, or `sub:` and a subject, on each line. Blank lines, and those that begin with `#`, say
    /// nothing.
    pub fn parse(text: &str) -> Self {
        let mut revoked = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.strip_prefix(SUBJECT) {
                Some(subject) => revoked.subjects.insert(subject.trim().into()),
                None => revoked.token_ids.insert(line.into()),
            };
        }
        revoked
    }

    /// Reads the file.
    ///
    /// # Errors
    /// Why it cannot be read, in plain words.
    pub fn read(file: &Path) -> Result<Self, String> {
        let bytes = std::fs::read(file).map_err(|error| error.to_string())?;
        if bytes.len() > FILE_BYTES {
            return Err(format!("is longer than {FILE_BYTES} bytes"));
        }
        String::from_utf8(bytes).map(|text| Self::parse(&text)).map_err(|_| "is no text in UTF-8".to_owned())
    }

    /// Whether a token with that id, or made out to that subject, is let in no more.
    pub fn holds(&self, token_id: Option<&str>, subject: Option<&str>) -> bool {
        token_id.is_some_and(|id| self.token_ids.contains(id))
            || subject.is_some_and(|subject| self.subjects.contains(subject))
    }

    /// How many are listed.
    pub fn len(&self) -> usize {
        self.token_ids.len() + self.subjects.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_ids_and_subjects() {
        let revoked = Revoked::parse("# who left\nsub: ann\r\n\n  id-1  \nsub:bob # no comment\n#id-2\n");
        assert_eq!(revoked.len(), 3);
        assert!(revoked.holds(Some("id-1"), None) && revoked.holds(Some("x"), Some("ann")));
        for (id, subject) in
            [(None, None), (Some("id-2"), Some("bob")), (Some("ann"), Some("id-1")), (Some(""), Some(""))]
        {
            assert!(!revoked.holds(id, subject), "{id:?} {subject:?}");
        }
    }
}
