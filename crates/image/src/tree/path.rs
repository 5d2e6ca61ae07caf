//! Names out of foreign archives.

/// What the kernel takes.
const LONGEST_PATH: usize = 4096;
const LONGEST_NAME: usize = 255;

/// The parts of a path below the root, wherever it says that it begins. An error says why it is none.
pub(crate) fn components(path: &[u8]) -> Result<Vec<&[u8]>, &'static str> {
    if path.len() > LONGEST_PATH {
        return Err("has a path longer than 4096 bytes");
    }
    // Most paths have no more: none of them makes the list grow.
    let mut parts = Vec::with_capacity(16);
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => continue,
            b".." => return Err("has `..` in its path"),
            part if part.contains(&0) => return Err("has a zero byte in its path"),
            part if part.len() > LONGEST_NAME => return Err("has a name longer than 255 bytes"),
            part => parts.push(part),
        }
    }
    Ok(parts)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_root() {
        let parts = |path: &'static str| components(path.as_bytes());
        assert_eq!(parts("./a//b/").unwrap(), [b"a", b"b"]);
        assert_eq!(parts("/etc/x").unwrap(), [&b"etc"[..], b"x"]);
        assert_eq!(parts("./").unwrap().len(), 0);
        assert!(parts("a/../b").is_err());
        assert!(parts("..").is_err());
        assert!(parts("a\0b").is_err());
        assert_eq!(parts("..a/b..").unwrap().len(), 2);
    }
}
