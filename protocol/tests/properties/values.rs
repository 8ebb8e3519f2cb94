//! Random values of the wire's types.

use inkrelay_protocol::{Channels, ClientId, Draw, Epoch, Identity, Position, Profile, Seq, Style};
use proptest::prelude::*;

const SAFE: u64 = (1 << 53) - 1;

/// Numbers up to `max`, the small and the large ones often: forms change at powers of two.
pub fn up_to(max: u64) -> impl Strategy<Value = u64> {
    let around_powers = (0..64u32, 0..3u64).prop_map(|(power, add)| (1u64 << power) - 1 + add);
    prop_oneof![around_powers, 0..=max, Just(max)].prop_map(move |value| value.min(max))
}

pub fn safe() -> impl Strategy<Value = u64> {
    up_to(SAFE)
}

pub fn client() -> impl Strategy<Value = ClientId> {
    up_to((1 << 48) - 1).prop_map(|id| ClientId::new(id).unwrap())
}

pub fn seq() -> impl Strategy<Value = Seq> {
    safe().prop_map(|seq| Seq::new(seq).unwrap())
}

pub fn identity() -> impl Strategy<Value = Identity> {
    (client(), safe(), safe()).prop_map(|(author, n, at)| Identity { author, n: n.max(1), at })
}

pub fn position() -> impl Strategy<Value = Position> {
    let epoch = safe().prop_map(|epoch| Epoch::new(epoch.max(1)).unwrap());
    (epoch, seq(), identity()).prop_map(|(epoch, seq, identity)| Position { epoch, seq, identity })
}

pub fn coordinate() -> impl Strategy<Value = i32> {
    const MAX: i32 = 1 << 30;
    prop_oneof![-200..200i32, -MAX..=MAX, Just(MAX), Just(-MAX)]
}

pub fn profile() -> impl Strategy<Value = Profile> {
    (".{0,64}", any::<u32>()).prop_map(|(name, rgba)| Profile::new(name, rgba).unwrap())
}

/// A draw that breaks no rule of its shape. Of unknown kinds only the kind is there.
pub fn draw() -> impl Strategy<Value = Draw> {
    let style = (any::<u64>(), any::<u32>(), any::<u16>()).prop_map(|(tool, rgba, width)| Style {
        tool,
        rgba,
        width,
    });
    let begin = (safe(), style, 0..8u64, any::<bool>(), 1..20usize).prop_flat_map(
        |(stroke, style, bits, end, points)| {
            let channels = Channels::new(bits).unwrap();
            let rest = points * channels.values_per_point() - 2;
            let first = [coordinate(), coordinate()];
            (first, prop::collection::vec(difference(), rest)).prop_map(move |(first, rest)| {
                let points = first.into_iter().chain(rest).collect();
                Draw::Begin { stroke, style, channels, points, end }
            })
        },
    );
    let extend = (safe(), prop::collection::vec(difference(), 0..40), any::<bool>()).prop_map(
        |(stroke, points, end)| {
            let end = end || points.is_empty();
            Draw::Extend { stroke, points, end }
        },
    );
    let names = || prop::collection::vec((client(), safe().prop_map(|n| n.max(1))), 1..20);
    prop_oneof![
        begin,
        extend,
        names().prop_map(Draw::Erase),
        names().prop_map(Draw::Revoke),
        Just(Draw::Clear),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(Draw::Opaque),
        (6..u64::MAX).prop_map(Draw::Unknown),
    ]
}

fn difference() -> impl Strategy<Value = i32> {
    prop_oneof![-40..40i32, any::<i32>(), Just(i32::MIN), Just(i32::MAX)]
}
