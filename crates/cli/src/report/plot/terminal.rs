//! A plot in letters. One curve, or several in colour, are drawn with braille dots; several without colour each with a
//! letter of their own.

use super::Plot;
use crate::report::Style;

const MARKS: [char; 16] = ['●', '×', '+', '○', '*', '#', '◆', '%', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
const COLOURS: [&str; 12] = ["36", "33", "35", "32", "34", "31", "96", "93", "95", "92", "94", "91"];
const SHADE: char = '░';
/// Dots of one letter.
const ACROSS: usize = 2;
const DOWN: usize = 4;

/// As many columns and lines as this at most, the legend besides.
pub(crate) fn terminal(plot: &Plot, (columns, rows): (usize, usize), style: Style) -> String {
    let Some((x, y)) = plot.scales() else { return nothing(plot) };
    let ticks = y.ticks(rows / 4, None);
    let margin = ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
    let (wide, high) = (columns.saturating_sub(margin + 2).max(10), rows.max(4));
    let by_mark = plot.lines.len() > 1 && !style.colour;
    let mut canvas = Canvas::new(wide, high, if by_mark { (1, 1) } else { (ACROSS, DOWN) });
    let at = |spot: (f64, f64)| (x.place(spot.0), y.place(spot.1));
    let shown = |height: f64| height.is_finite() && (!plot.is_log || height > 0.0);
    for (number, line) in plot.lines.iter().enumerate() {
        for part in line.band.split(|(_, low, high)| !shown(*low) || !shown(*high)) {
            let edges = part.iter().map(|(place, low, high)| (at((*place, *low)), at((*place, *high))));
            let edges: Vec<_> = edges.map(|(low, high)| (canvas.dot(low), canvas.dot(high))).collect();
            let last = edges.last().copied();
            for (from, to) in edges.iter().copied().zip(edges.iter().copied().skip(1).chain(last)) {
                canvas.shade(number, from, to);
            }
        }
    }
    // The first on top: it is the one that was asked for first.
    for (number, line) in plot.lines.iter().enumerate().rev() {
        let mut last = None;
        for spot in &line.spots {
            let here = shown(spot.1).then(|| canvas.dot(at(*spot)));
            if let Some(here) = here {
                canvas.stroke(number, last.unwrap_or(here), here);
            }
            last = here;
        }
    }
    let mut text = format!("{} {}\n", style.bold(&plot.metric), style.dim(&format!("by {}", plot.x_title())));
    let row_of = |number: f64| ((1.0 - y.place(number)) * (high - 1) as f64).round() as usize;
    for row in 0..high {
        let tick = ticks.iter().find(|(number, _)| row_of(*number) == row);
        let label = tick.map(|(_, label)| label.as_str()).unwrap_or_default();
        let edge = if tick.is_some() { '┤' } else { '│' };
        text.push_str(&format!("{label:>margin$} {edge}{}\n", canvas.row(row, by_mark, style)));
    }
    text.push_str(&x_axis(&x.ticks(wide / 14, Some(plot.along)), |number| x.place(number), (margin, wide)));
    if plot.lines.len() > 1 || plot.lines.iter().any(|line| !line.band.is_empty()) {
        for (number, line) in plot.lines.iter().enumerate() {
            text.push_str(&format!("{} {}\n", sample(number, by_mark, style), line.label));
        }
    }
    text
}

fn nothing(plot: &Plot) -> String {
    let why = if plot.is_log { "no values above 0" } else { "no values" };
    format!("{}: {why}\n", plot.metric)
}

fn sample(number: usize, by_mark: bool, style: Style) -> String {
    let mark = if by_mark { MARKS.get(number % MARKS.len()).copied().unwrap_or('●') } else { '━' };
    paint(&mark.to_string(), number, style)
}

fn paint(text: &str, number: usize, style: Style) -> String {
    let colour = COLOURS.get(number % COLOURS.len()).copied().unwrap_or("0");
    if style.colour { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
}

fn x_axis(ticks: &[(f64, String)], place: impl Fn(f64) -> f64, (margin, wide): (usize, usize)) -> String {
    let mut rule: Vec<char> = vec!['─'; wide];
    let mut labels: Vec<char> = vec![' '; margin + 2 + wide];
    let end = margin + 2 + wide;
    let mut free = 0;
    for (number, label) in ticks {
        let column = (place(*number) * (wide - 1) as f64).round() as usize;
        let length = label.chars().count();
        let start = (margin + 2 + column).saturating_sub(length / 2).min(end.saturating_sub(length));
        if start < free {
            continue;
        }
        rule.iter_mut().skip(column).take(1).for_each(|letter| *letter = '┬');
        labels.iter_mut().skip(start).zip(label.chars()).for_each(|(place, letter)| *place = letter);
        free = start + length + 2;
    }
    let labels: String = labels.into_iter().collect();
    format!("{} └{}\n{}\n", " ".repeat(margin), rule.into_iter().collect::<String>(), labels.trim_end())
}

/// Column and line of a dot.
type Dot = (i64, i64);

/// Dots, each with the curve it belongs to.
struct Canvas {
    wide: usize,
    high: usize,
    /// Dots of one letter, across and down.
    grain: (usize, usize),
    cells: Vec<Cell>,
}

#[derive(Clone, Copy, Default)]
struct Cell {
    dots: u8,
    owner: Option<usize>,
    shade: Option<usize>,
}

impl Canvas {
    fn new(wide: usize, high: usize, grain: (usize, usize)) -> Self {
        Self { wide, high, grain, cells: vec![Cell::default(); wide * high] }
    }

    /// The dot at this place, counted from the upper left.
    fn dot(&self, (x, y): (f64, f64)) -> Dot {
        let across = (self.wide * self.grain.0 - 1) as f64;
        let down = (self.high * self.grain.1 - 1) as f64;
        ((x * across).round() as i64, ((1.0 - y) * down).round() as i64)
    }

    fn set(&mut self, number: usize, (x, y): Dot) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        let (column, row) = (x / self.grain.0, y / self.grain.1);
        if column >= self.wide {
            return;
        }
        if let Some(cell) = self.cells.get_mut(row * self.wide + column) {
            cell.dots |= braille(x % self.grain.0, y % self.grain.1);
            cell.owner = Some(number);
        }
    }

    /// A straight line of dots.
    fn stroke(&mut self, number: usize, from: Dot, to: Dot) {
        let (across, down) = (to.0 - from.0, to.1 - from.1);
        let count = across.abs().max(down.abs()).max(1);
        for at in 0..=count {
            self.set(number, (from.0 + across * at / count, from.1 + down * at / count));
        }
    }

    /// Between two places of a band, each given by its least and its greatest dot.
    fn shade(&mut self, number: usize, from: (Dot, Dot), to: (Dot, Dot)) {
        let across = (to.0.0 - from.0.0).max(0);
        for step in 0..=across {
            let between = |from: i64, to: i64| from + (to - from) * step / across.max(1);
            let (bottom, top) = (between(from.0.1, to.0.1), between(from.1.1, to.1.1));
            let index = |dot: i64, grain: usize| usize::try_from(dot).unwrap_or(0) / grain;
            let column = index(from.0.0 + step, self.grain.0);
            for row in index(top, self.grain.1)..=index(bottom, self.grain.1) {
                let cell = self.cells.get_mut(row * self.wide + column).filter(|_| column < self.wide);
                cell.map(|cell| cell.shade.get_or_insert(number));
            }
        }
    }

    fn row(&self, row: usize, by_mark: bool, style: Style) -> String {
        let cells = self.cells.iter().skip(row * self.wide).take(self.wide);
        let text: String = cells
            .map(|cell| match (cell.owner, cell.shade) {
                (Some(number), _) if by_mark => sample(number, true, style),
                (Some(number), _) => {
                    let letter = char::from_u32(0x2800 + u32::from(cell.dots)).unwrap_or(' ');
                    paint(&letter.to_string(), number, style)
                }
                (None, Some(number)) => paint(&SHADE.to_string(), number, style),
                (None, None) => " ".to_owned(),
            })
            .collect();
        text.trim_end().to_owned()
    }
}

/// The bit of a dot in Unicode's braille patterns.
fn braille(across: usize, down: usize) -> u8 {
    match (across, down) {
        (0, 3) => 0x40,
        (1, 3) => 0x80,
        (0, down) => 1 << down,
        (_, down) => 8 << down,
    }
}
