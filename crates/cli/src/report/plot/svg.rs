//! A plot as an SVG file that needs nothing else, and can be read on light and dark.

use super::axis::Scale;
use super::{Along, Plot};

const WIDE: f64 = 800.0;
const HIGH: f64 = 450.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
const LEGEND_LINE: f64 = 20.0;
/// Between the axis and the first line of the legend.
const LEGEND_GAP: f64 = 14.0;
/// Letters that fit beside each other, in the title and in the legend.
const TITLE: usize = 80;
const LABEL: usize = 100;

/// Colours that people with any kind of sight can tell apart, on white and on black.
const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#8c564b", "#7f7f7f"];

pub(super) const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#333}.title{font-size:15px;font-weight:600}\
.grid{stroke:#000;stroke-opacity:.12}.axis{stroke:#333;fill:none}.line{fill:none;stroke-width:1.8;stroke-linejoin:round}\
.paper{fill:#fff}@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#fff;stroke-opacity:.16}\
.axis{stroke:#ddd}.paper{fill:#16181c}}";

/// When all colours are used up, lines are broken, each round in its own way.
const DASHES: [&str; 4] =
    ["", " stroke-dasharray=\"8 3\"", " stroke-dasharray=\"2 3\"", " stroke-dasharray=\"8 3 2 3\""];

/// `None` when there is nothing to show.
pub(crate) fn svg(plot: &Plot) -> Option<String> {
    let (x, y) = plot.scales()?;
    let frame = Frame { x, y, is_log: plot.is_log };
    let legend = plot.lines.len() > 1 || plot.lines.iter().any(|line| !line.band.is_empty());
    let high = if legend { HIGH + LEGEND_GAP + LEGEND_LINE * plot.lines.len() as f64 } else { HIGH };
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDE} {high}\" width=\"{WIDE}\" height=\"{high}\" \
         role=\"img\">\n<title>{}</title>\n<style>{STYLE}</style>\n<rect class=\"paper\" width=\"100%\" \
         height=\"100%\"/>\n<text class=\"title\" x=\"{LEFT}\" y=\"24\">{}</text>\n",
        escaped(&plot.metric),
        escaped(&short(&plot.metric, TITLE)),
    );
    out.push_str(&axes(&frame, plot));
    for (number, line) in plot.lines.iter().enumerate() {
        let (colour, _) = look(number);
        let band = frame.outline(&line.band);
        if !band.is_empty() {
            out.push_str(&format!("<path d=\"{band}\" fill=\"{colour}\" fill-opacity=\".2\"/>\n"));
        }
    }
    for (number, line) in plot.lines.iter().enumerate().rev() {
        let (path, (colour, dash)) = (frame.path(&line.spots), look(number));
        out.push_str(&format!("<path class=\"line\" d=\"{path}\" stroke=\"{colour}\"{dash}/>\n"));
        for (x, y) in frame.lonely(&line.spots) {
            out.push_str(&format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>\n"));
        }
    }
    for (number, line) in plot.lines.iter().enumerate().filter(|_| legend) {
        let at = HIGH + LEGEND_GAP + LEGEND_LINE * number as f64;
        let (colour, dash) = look(number);
        out.push_str(&format!(
            "<path class=\"line\" d=\"M{LEFT} {:.1}h24\" stroke=\"{colour}\"{dash}/><text x=\"{}\" y=\"{at}\">{}</text>\n",
            at - 4.0,
            LEFT + 32.0,
            escaped(&short(&line.label, LABEL))
        ));
    }
    out.push_str("</svg>\n");
    Some(out)
}

/// Colour and dashes of a line.
fn look(number: usize) -> (&'static str, &'static str) {
    let round = number / COLOURS.len();
    let dash = DASHES.get(round % DASHES.len()).copied().unwrap_or_default();
    (COLOURS.get(number % COLOURS.len()).copied().unwrap_or("#000"), dash)
}

/// Its end, which tells more names apart than its beginning.
pub(super) fn short(text: &str, most: usize) -> String {
    let count = text.chars().count();
    match count > most {
        true => format!("…{}", text.chars().skip(count + 1 - most).collect::<String>()),
        false => text.to_owned(),
    }
}

fn axes(frame: &Frame, plot: &Plot) -> String {
    let (bottom, right) = (HIGH - BOTTOM, WIDE - RIGHT);
    let mut out = String::new();
    for (number, label) in frame.y.ticks(6, None) {
        let at = frame.down(number);
        out.push_str(&format!(
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
            LEFT - 8.0,
            at + 4.0,
            escaped(&label)
        ));
    }
    for (number, label) in frame.x.ticks(8, Some(plot.along)) {
        let at = frame.across(number);
        out.push_str(&format!(
            "<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom}\"/><text x=\"{at:.1}\" y=\"{}\" \
             text-anchor=\"middle\">{}</text>\n",
            bottom + 18.0,
            escaped(&label)
        ));
    }
    out.push_str(&format!("<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>\n"));
    let title = if plot.along == Along::Time { "time since the start" } else { plot.x_title() };
    let middle = f64::midpoint(LEFT, right);
    out + &format!("<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{title}</text>\n", bottom + 38.0)
}

struct Frame {
    x: Scale,
    y: Scale,
    is_log: bool,
}

impl Frame {
    fn across(&self, number: f64) -> f64 {
        LEFT + self.x.place(number) * (WIDE - LEFT - RIGHT)
    }

    fn down(&self, number: f64) -> f64 {
        HIGH - BOTTOM - self.y.place(number) * (HIGH - TOP - BOTTOM)
    }

    fn shows(&self, height: f64) -> bool {
        height.is_finite() && (!self.is_log || height > 0.0)
    }

    /// Of the many points that fall on one column of the picture the first, the extremes and the last are drawn.
    fn path(&self, spots: &[(f64, f64)]) -> String {
        let mut path = String::new();
        for part in spots.split(|(_, y)| !self.shows(*y)) {
            let points: Vec<(f64, f64)> = part.iter().map(|(x, y)| (self.across(*x), self.down(*y))).collect();
            let mut pen = 'M';
            for column in points.chunk_by(|a, b| a.0.floor() == b.0.floor()) {
                for (x, y) in corners(column) {
                    path.push_str(&format!("{pen}{x:.1} {y:.1}"));
                    pen = 'L';
                }
            }
        }
        path
    }

    /// Points between gaps, of which no line can be drawn.
    fn lonely(&self, spots: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let parts = spots.split(|(_, y)| !self.shows(*y));
        parts
            .filter_map(|part| <[(f64, f64); 1]>::try_from(part).ok())
            .map(|[(x, y)]| (self.across(x), self.down(y)))
            .collect()
    }

    /// One for each part between two gaps.
    fn outline(&self, band: &[(f64, f64, f64)]) -> String {
        band.split(|(_, low, high)| !self.shows(*low) || !self.shows(*high)).map(|part| self.outline_of(part)).collect()
    }

    fn outline_of(&self, part: &[(f64, f64, f64)]) -> String {
        let columns: Vec<(f64, f64, f64)> = part
            .chunk_by(|a, b| self.across(a.0).floor() == self.across(b.0).floor())
            .filter_map(|column| {
                let (x, ..) = column.first()?;
                let low = column.iter().map(|(_, low, _)| *low).fold(f64::INFINITY, f64::min);
                let high = column.iter().map(|(.., high)| *high).fold(f64::NEG_INFINITY, f64::max);
                Some((self.across(*x), self.down(low), self.down(high)))
            })
            .collect();
        let there = columns.iter().map(|(x, _, high)| format!("{x:.1} {high:.1}"));
        let back = columns.iter().rev().map(|(x, low, _)| format!("{x:.1} {low:.1}"));
        let corners: Vec<String> = there.chain(back).collect();
        if columns.len() < 2 { String::new() } else { format!("M{}Z", corners.join("L")) }
    }
}

fn corners(column: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if column.len() <= 4 {
        return column.to_vec();
    }
    let by_height = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
    let chosen = [column.first(), column.iter().min_by(by_height), column.iter().max_by(by_height), column.last()];
    chosen.into_iter().flatten().copied().collect()
}

/// Text as XML takes it; letters that it does not take at all are left out.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => {}
            letter if letter.is_control() => {}
            letter => out.push(letter),
        }
    }
    out
}
