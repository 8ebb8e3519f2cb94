//! Random numbers from the operating system.

/// `N` random bytes.
///
/// # Panics
/// When the operating system has no randomness to give: then no ticket would be worth anything.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// 64 random bits.
pub fn u64() -> u64 {
    u64::from_be_bytes(bytes())
}
