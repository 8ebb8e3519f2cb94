//! Embeds the built pages, the drawing board and the operators': every file, once as it is and once compressed.
//!
//! Where a page is not built its list is empty and the relay says how to build it, so that the relay needs no node.
//! Only gzip: browsers accept nothing better over plain http, and whoever adds TLS has a proxy that can do more.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, error, fs, io};

use sha2::{Digest, Sha256};

/// Bytes of a file's SHA-256 that tell its versions apart.
const TAG_BYTES: usize = 12;

fn main() -> Result<(), Box<dyn error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let web = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../clients/web");
    embed(&web.join("dist"), "board")?;
    embed(&web.join("operators/dist"), "operators")
}

/// Writes the list of a page's files into `NAME.rs`.
fn embed(dist: &Path, name: &str) -> Result<(), Box<dyn error::Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // Cargo runs this again whenever a path that it watches is missing, and builds the relay anew each time. An empty
    // folder is watched instead: a board that appears in it changes its time.
    if let Err(error) = fs::create_dir_all(dist) {
        println!("cargo::warning=cannot make {}: {error}", dist.display());
    }
    println!("cargo::rerun-if-changed={}", dist.display());

    let mut files = Vec::new();
    // A folder without its page is no board: a build that is under way, or that failed.
    if dist.join("index.html").is_file() {
        collect(&dist.canonicalize()?, "", &mut files)?;
    }
    files.sort();
    let mut list = String::from("&[\n");
    for (index, (address, path)) in files.iter().enumerate() {
        let bytes = fs::read(path)?;
        let mut tag = String::new();
        for byte in &Sha256::digest(&bytes)[..TAG_BYTES] {
            write!(tag, "{byte:02x}")?;
        }
        let gzip = compressed(&bytes)?;
        // What hardly shrinks, such as pictures, is sent as it is.
        let gzip = if gzip.len() < bytes.len() * 9 / 10 {
            let path = out.join(format!("{name}-{index}.gz"));
            fs::write(&path, gzip)?;
            format!("Some(include_bytes!({path:?}))")
        } else {
            "None".to_owned()
        };
        writeln!(
            list,
            "File {{ path: {address:?}, tag: \"W/\\\"{tag}\\\"\", plain: include_bytes!({path:?}), gzip: {gzip} }},"
        )?;
    }
    list.push(']');
    fs::write(out.join(format!("{name}.rs")), list)?;
    Ok(())
}

/// The files below a folder with their paths in addresses, which need no escaping.
fn collect(folder: &Path, below: &str, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().filter(|name| {
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
        });
        let Some(name) = name else {
            return Err(io::Error::other(format!(
                "{} has other characters than A-Z a-z 0-9 . - _ in its name",
                entry.path().display()
            )));
        };
        let path = format!("{below}/{name}");
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &path, files)?;
        } else {
            files.push((path, entry.path()));
        }
    }
    Ok(())
}

fn compressed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}
