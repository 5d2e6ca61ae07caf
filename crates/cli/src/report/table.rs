//! Columns that align, with colour in them or not.

use unicode_width::UnicodeWidthChar;

const GAP: usize = 2;

/// Rows below a header. Nothing is wrapped or cut: a narrow terminal folds the line, and a pipe gets it whole.
pub(crate) fn table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut lines: Vec<Vec<String>> = Vec::with_capacity(rows.len() + 1);
    if header.iter().any(|title| !title.is_empty()) {
        lines.push(header.iter().map(|title| (*title).to_owned()).collect());
    }
    lines.extend(rows);
    let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(|cell| width(cell)).max();
    let widths: Vec<usize> = (0..header.len()).map(|column| width(column).unwrap_or(0)).collect();
    lines.iter().map(|line| lay(line, &widths)).collect()
}

fn lay(line: &[String], widths: &[usize]) -> String {
    let mut text = String::new();
    for (cell, column) in line.iter().zip(widths) {
        // A line break in a cell would break the table.
        text.push_str(&cell.replace(['\n', '\r'], " "));
        text.push_str(&" ".repeat(column + GAP - width(cell)));
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// At most this many columns of a line; colour that was begun is ended.
pub(crate) fn cut(line: &str, columns: usize) -> String {
    if width(line) <= columns {
        return line.to_owned();
    }
    let mut text = String::new();
    for letter in line.chars() {
        text.push(letter);
        if width(&text) >= columns.saturating_sub(1) {
            break;
        }
    }
    text + "…\x1b[0m"
}

/// The beginning of a text without colours.
pub(crate) fn abridged(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    text.chars().take(letters.saturating_sub(1)).chain(['…']).collect()
}

/// Columns on the terminal; colour takes none.
fn width(cell: &str) -> usize {
    let mut coloured = false;
    let visible = |letter: &char| match (*letter, coloured) {
        ('\x1b', _) => {
            coloured = true;
            false
        }
        ('m', true) => {
            coloured = false;
            false
        }
        (_, coloured) => !coloured,
    };
    cell.chars().filter(visible).map(|letter| letter.width().unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_with_colour_and_wide_letters() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let text = table(&["A", "B"], vec![row(["\x1b[31mred\x1b[0m", "x"]), row(["日本", "y"])]);
        assert_eq!(text, "A     B\n\x1b[31mred\x1b[0m   x\n日本  y\n");
    }
}
