use insta::assert_snapshot;

use super::*;
use crate::report::Style;

const PLAIN: Style = Style { colour: false };

fn line(label: &str, height: impl Fn(f64) -> f64) -> Line {
    let spots = (0..=100).map(|step| (f64::from(step) * 100.0, height(f64::from(step) / 100.0))).collect();
    Line { label: label.to_owned(), spots, band: Vec::new() }
}

fn plot(lines: Vec<Line>) -> Plot {
    Plot { metric: "Train/mean_reward".to_owned(), along: Along::Steps, is_log: false, lines }
}

#[test]
fn one_curve_is_drawn_with_dots() {
    let text = terminal(&plot(vec![line("a", |x| x * x * 100.0)]), (60, 10), PLAIN);
    assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    assert_snapshot!(text, @r"
    Train/mean_reward by step
    100 ┤                                                     ⢀⠔
        │                                                  ⡠⠤⠊⠁
        │                                              ⢀⡠⠔⠉
        │                                           ⡠⠔⠒⠁
        │                                      ⢀⣀⠤⠒⠉
        │                                  ⢀⡠⠔⠊⠁
        │                             ⣀⡠⠔⠒⠉⠁
        │                      ⢀⣀⡠⠤⠒⠒⠉
        │             ⣀⣀⣀⡠⠤⠔⠒⠊⠉⠁
      0 ┤⠤⠤⠒⠒⠒⠒⠒⠒⠒⠒⠉⠉⠉
        └┬──────────────────────────┬──────────────────────────┬
         0                        5000                       10k
    ");
}

#[test]
fn several_are_told_apart_without_colour() {
    let lines = vec![line("train-s1", |x| x), line("train-s2", |x| 1.0 - x)];
    let text = terminal(&plot(lines.clone()), (60, 10), PLAIN);
    assert_snapshot!(text, @r"
    Train/mean_reward by step
    1 ┤××                                                     ●●
      │ ×××××××                                         ●●●●●●●
      │        ×××××××                           ●●●●●●●
      │               ×××××××             ●●●●●●●
      │                     ××××××× ●●●●●●●
      │                      ●●●●●●●××××××
      │               ●●●●●●●             ×××××××
      │        ●●●●●●●●                         ××××××××
      │  ●●●●●●                                         ××××××
    0 ┤●●                                                     ××
      └┬───────────────────────────┬───────────────────────────┬
       0                         5000                        10k
    ● train-s1
    × train-s2
    ");
    let coloured = terminal(&plot(lines), (60, 10), Style { colour: true });
    assert!(coloured.contains("\x1b[36m") && coloured.contains("\x1b[33m"), "{coloured}");
}

#[test]
fn a_band_is_shaded() {
    let mut mean = line("train, mean of 3 (least to greatest)", |x| x);
    mean.band = mean.spots.iter().map(|(x, y)| (*x, y - 0.3, y + 0.3)).collect();
    assert_snapshot!(terminal(&plot(vec![mean]), (60, 10), PLAIN), @r"
    Train/mean_reward by step
      │                                                   ░░░░░░
      │                                          ░░░░░░░░░░░░░░░
    1 ┤                               ░░░░░░░░░░░░░░░░░⢀⣀⣀⠤⠤⠔⠒⠒⠉
      │                     ░░░░░░░░░░░░░░░░░⢀⣀⣀⠤⠤⠔⠒⠒⠊⠉⠁░░░░░░░░
      │            ░░░░░░░░░░░░░░░░░⣀⣀⠤⠤⠔⠒⠒⠉⠉⠁░░░░░░░░░░░░░░░░░
      │ ░░░░░░░░░░░░░░░░░⢀⣀⣀⠤⠤⠔⠒⠒⠉⠉⠉░░░░░░░░░░░░░░░░░
      │░░░░░░░░⢀⣀⡠⠤⠤⠔⠒⠒⠉⠉⠁░░░░░░░░░░░░░░░░░
    0 ┤⣀⠤⠤⠔⠒⠒⠉⠉⠁░░░░░░░░░░░░░░░░░
      │░░░░░░░░░░░░░░░░
      │░░░░░░
      └┬───────────────────────────┬───────────────────────────┬
       0                         5000                        10k
    ━ train, mean of 3 (least to greatest)
    ");
}

#[test]
fn nothing_to_show_is_said() {
    let gap = plot(vec![line("a", |_| f64::NAN)]);
    assert_eq!(terminal(&gap, (60, 10), PLAIN), "Train/mean_reward: no values\n");
    assert_eq!(svg(&gap), None);
    let below = Plot { is_log: true, ..plot(vec![line("a", |_| -1.0)]) };
    assert_eq!(terminal(&below, (60, 10), PLAIN), "Train/mean_reward: no values above 0\n");
}

#[test]
fn an_svg_is_sound_whatever_the_names() {
    let hostile = "<script>alert(1)</script> & \"x\" \u{1}";
    let mut lines = vec![line(hostile, |x| x), line("b", |x| if x > 0.5 { f64::INFINITY } else { x })];
    lines[0].band = vec![(0.0, 0.0, 1.0), (10_000.0, 0.5, 2.0)];
    let text = svg(&Plot { metric: hostile.to_owned(), ..plot(lines) }).expect("values");
    assert!(!text.contains("<script>") && !text.contains('\u{1}') && !text.contains("NaN") && !text.contains("inf"));
    let (open, closed) = (text.matches('<').count(), text.matches('>').count());
    assert_eq!(open, closed);
    assert!(text.contains("prefers-color-scheme:dark") && text.ends_with("</svg>\n"));
}

#[test]
fn an_svg_stays_small_with_many_points() {
    let spots = (0..1_000_000).map(|step| (f64::from(step), f64::from(step % 997))).collect();
    let text = svg(&plot(vec![Line { label: "a".to_owned(), spots, band: Vec::new() }])).expect("values");
    assert!(text.len() < 100_000, "{}", text.len());
}

#[test]
fn a_lonely_point_can_be_seen() {
    let alone = plot(vec![Line { label: "a".to_owned(), spots: vec![(3.0, 2.0)], band: Vec::new() }]);
    assert!(svg(&alone).expect("a value").contains("<circle"));
    let drawn = terminal(&alone, (60, 10), PLAIN);
    assert!(drawn.chars().any(|letter| ('\u{2801}'..='\u{28ff}').contains(&letter)), "{drawn}");
}

#[test]
fn a_band_has_the_gaps_of_its_line() {
    let mut mean = line("a", |x| if (0.4..0.6).contains(&x) { f64::NAN } else { x });
    mean.band = mean.spots.iter().map(|(x, y)| (*x, y - 0.1, y + 0.1)).collect();
    let drawn = svg(&plot(vec![mean.clone()])).expect("values");
    let band = drawn.lines().find(|line| line.contains("fill-opacity")).expect("a band");
    assert_eq!(band.matches('M').count(), 2, "two parts: {band}");
    let letters = terminal(&plot(vec![mean]), (60, 10), PLAIN);
    assert!(letters.lines().all(|line| !line.chars().skip(30).take(4).any(|letter| letter == '░')), "{letters}");
}

#[test]
fn more_curves_than_colours_differ() {
    let lines: Vec<Line> = (0..20).map(|number| line(&format!("run-{number}"), |x| x)).collect();
    let drawn = svg(&plot(lines)).expect("values");
    let legend: std::collections::BTreeSet<&str> =
        drawn.lines().filter_map(|line| Some(line.split_once("h24\" ")?.1.split_once("/>")?.0)).collect();
    assert_eq!(legend.len(), 20);
}
