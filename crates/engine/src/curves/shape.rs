//! Curves made easier to look at.

/// One place of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spot {
    pub x: f64,
    pub y: f64,
}

/// Several curves at one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    pub x: f64,
    pub mean: f64,
    pub least: f64,
    pub most: f64,
    /// How many curves reach this place.
    pub count: usize,
}

/// A moving average that forgets, as TensorBoard's: 0 changes nothing, towards 1 ever smoother. What is no number is
/// left as it is.
pub fn smooth(spots: &mut [Spot], weight: f64) {
    let (mut sum, mut total) = (0.0, 0.0);
    for spot in spots.iter_mut().filter(|spot| spot.y.is_finite()) {
        sum = sum * weight + spot.y * (1.0 - weight);
        total = total * weight + (1.0 - weight);
        if total > 0.0 {
            spot.y = sum / total;
        }
    }
}

/// Mean, least and greatest of curves whose places rise, wherever one of them has a place. Between two places a curve
/// is straight; beyond its ends it says nothing. Where none is a number there is a gap.
pub fn band(curves: &[Vec<Spot>]) -> Vec<Band> {
    let mut places: Vec<f64> = curves.iter().flatten().map(|spot| spot.x).filter(|x| x.is_finite()).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let mut at = vec![0; curves.len()];
    let mut bands = Vec::with_capacity(places.len());
    for x in places {
        let here: Vec<f64> = curves.iter().zip(&mut at).filter_map(|(curve, at)| height(curve, at, x)).collect();
        let count = here.len();
        // Of none it is not a number.
        let mean = here.iter().sum::<f64>() / count as f64;
        let least = here.iter().copied().reduce(f64::min).unwrap_or(f64::NAN);
        let most = here.iter().copied().reduce(f64::max).unwrap_or(f64::NAN);
        bands.push(Band { x, mean, least, most, count });
    }
    bands
}

/// `at` is the last place that is not beyond `x`; it only moves forward.
fn height(curve: &[Spot], at: &mut usize, x: f64) -> Option<f64> {
    while curve.get(*at + 1).is_some_and(|next| next.x <= x) {
        *at += 1;
    }
    let before = curve.get(*at).filter(|spot| spot.x <= x)?;
    let y = match curve.get(*at + 1) {
        _ if before.x == x => before.y,
        Some(after) => before.y + (after.y - before.y) * (x - before.x) / (after.x - before.x),
        None => return None,
    };
    y.is_finite().then_some(y)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(spots: &[(f64, f64)]) -> Vec<Spot> {
        spots.iter().map(|(x, y)| Spot { x: *x, y: *y }).collect()
    }

    #[test]
    fn curves_with_other_places_meet() {
        let bands = band(&[curve(&[(0.0, 0.0), (10.0, 10.0)]), curve(&[(5.0, 1.0), (10.0, 0.0), (20.0, 4.0)])]);
        let told: Vec<_> = bands.iter().map(|band| (band.x, band.mean, band.least, band.most, band.count)).collect();
        assert_eq!(
            told,
            [(0.0, 0.0, 0.0, 0.0, 1), (5.0, 3.0, 1.0, 5.0, 2), (10.0, 5.0, 0.0, 10.0, 2), (20.0, 4.0, 4.0, 4.0, 1),]
        );
    }

    #[test]
    fn what_is_no_number_does_not_count() {
        let bands = band(&[curve(&[(0.0, f64::NAN), (1.0, 2.0)]), curve(&[(0.0, 1.0), (1.0, 4.0)])]);
        assert_eq!(bands.iter().map(|band| (band.mean, band.count)).collect::<Vec<_>>(), [(1.0, 1), (3.0, 2)]);
        let mut spots = curve(&[(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0)]);
        smooth(&mut spots, 0.5);
        assert!(spots[0].y == 1.0 && spots[1].y.is_nan() && (spots[2].y - 7.0 / 3.0).abs() < 1e-12, "{spots:?}");
    }

    #[test]
    fn no_weight_changes_nothing() {
        let mut spots = curve(&[(0.0, 1.0), (1.0, 5.0)]);
        smooth(&mut spots, 0.0);
        assert_eq!(spots, curve(&[(0.0, 1.0), (1.0, 5.0)]));
    }
}
