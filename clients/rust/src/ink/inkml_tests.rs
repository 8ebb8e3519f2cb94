//! InkML by its rules, and the recordings beside the project.

use std::path::PathBuf;

use super::super::read_file;
use super::*;

fn document(format: &str, trace: &str) -> String {
    format!(
        r##"<i:ink xmlns:i="http://www.w3.org/2003/InkML"><i:definitions>
        <i:context xml:id="c"><i:inkSource><i:traceFormat>{format}</i:traceFormat></i:inkSource></i:context>
        <i:brush xml:id="b"><i:brushProperty name="width" value="0.254" units="cm"/>
        <i:brushProperty name="color" value="#102030"/><i:brushProperty name="transparency" value="55"/>
        <i:brushProperty name="rasterOp" value="maskPen"/></i:brush></i:definitions>
        <i:trace contextRef="#c" brushRef="#b" timeOffset="7">{trace}</i:trace></i:ink>"##
    )
}

#[test]
fn channels_are_read_in_their_order_and_units() {
    let format = r#"<channel name="F" min="10" max="20"/><channel name="Y" units="himetric"/>
        <channel name="X" units="in"/><channel name="T" units="s"/>"#;
    let strokes = parse(&document(format, "15 2540 1 100, 25 5080 2 100.5")).unwrap();
    let expected = [
        InkPoint { x: 1536, y: 1536, pressure: Some(128), time_ms: Some(0), tilt: None },
        InkPoint { x: 3072, y: 3072, pressure: Some(255), time_ms: Some(500), tilt: None },
    ];
    assert_eq!(strokes[0].points, expected);
    assert_eq!(strokes[0].start_ms, Some(7));
    assert_eq!(strokes[0].style, InkStyle { tool: Some(1), rgba: Some(0x1020_30c8), width: Some(154) });
}

#[test]
fn contexts_and_formats_may_be_referred_to() {
    let text = r##"<ink xmlns="http://www.w3.org/2003/InkML"><definitions>
        <traceFormat xml:id="f"><channel name="X" units="cm"/><channel name="Y" units="cm"/></traceFormat>
        <context xml:id="a" traceFormatRef="#f"/><context xml:id="b" contextRef="#a"/></definitions>
        <traceGroup contextRef="#b"><trace>2.54 0</trace><trace type="penUp">9 9</trace></traceGroup>
        <trace>1 1</trace><context contextRef="#a"/><trace>2.54 0</trace></ink>"##;
    let strokes = parse(text).unwrap();
    let x: Vec<_> = strokes.iter().map(|stroke| stroke.points[0].x).collect();
    assert_eq!(x, [1536, 16, 1536]);
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let xy = r#"<channel name="X"/><channel name="Y"/>"#;
    for (text, place, why) in [
        ("<ink>".to_owned(), "line 1", ""),
        ("<svg/>".to_owned(), "the beginning", "<ink>"),
        (document(xy, "1 2, 3"), "the <trace> in line 6", "point 2"),
        (document(xy, "1 99999999999"), "the <trace>", "point 1: a coordinate"),
        (document(r#"<channel name="X"/>"#, "1"), "the <trace>", "no channel Y"),
        (document(r#"<channel name="X" units="parsec"/><channel name="Y"/>"#, "1 1"), "", "parsec"),
        (document(r#"<channel name="X" max="much"/><channel name="Y"/>"#, "1 1"), "", "no number"),
        (document(xy, "1 1").replace("#c", "#d"), "the <trace>", "not in the file"),
    ] {
        let fault = parse(&text).unwrap_err();
        assert!(fault.place.contains(place) && fault.why.contains(why), "{fault:?}");
    }
    let circle = r##"<ink><context xml:id="a" contextRef="#b"/><context xml:id="b" contextRef="#a"/>
        <trace contextRef="#a">1 1</trace></ink>"##;
    assert!(parse(circle).unwrap_err().why.contains("without end"));
}

/// The recordings stand beside the project; elsewhere these tests say that they did not run.
fn recording(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/ink").join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("SKIPPED: there is no {}", path.display());
    None
}

#[test]
fn recording_of_onenote() {
    let Some(path) = recording("onenote-web.inkml") else { return };
    let strokes = read_file(&path).unwrap();
    assert_eq!(strokes.len(), 6);
    let first = strokes[0].points[0];
    // 1423 and 7569 hundredths of a millimetre, and a pressure of 3456 of 32767.
    assert_eq!((first.x, first.y, first.pressure), (861, 4577, Some(27)));
    assert_eq!(strokes[0].style.rgba, Some(0x0000_ffff));
    assert_eq!(strokes[0].style.width, Some(60));
}

#[test]
fn recording_of_a_journal() {
    let Some(path) = recording("journal.inkml") else { return };
    let strokes = read_file(&path).unwrap();
    assert_eq!(strokes.len(), 116);
    let first = strokes[0].points[0];
    // 2.988 and 13.425 cm, tilted by 19.02 and 2.44 degrees; its brush ignores pressure.
    assert_eq!((first.x, first.y, first.pressure, first.tilt), (1807, 8118, None, Some((19, 2))));
    // The drawing is a page: a value read with a wrong prefix would run far out of it.
    let page = |point: &InkPoint| (0..20_000).contains(&point.x) && (0..30_000).contains(&point.y);
    assert!(strokes.iter().all(|stroke| stroke.points.iter().all(page)));
    assert_eq!(strokes[2].style, InkStyle { tool: None, rgba: Some(0xc31d_1dff), width: Some(240) });
}

#[test]
fn recordings_in_json() {
    for (name, strokes, points) in [
        ("freehand-sample.json", 1, 360),
        ("freehand-flash.json", 1, 135),
        ("freehand-inputs.json", 12, 2041),
    ] {
        let Some(path) = recording(name) else { return };
        let read = read_file(&path).unwrap();
        assert_eq!(read.len(), strokes, "{name}");
        assert_eq!(read.iter().map(|stroke| stroke.points.len()).sum::<usize>(), points, "{name}");
    }
}
