use super::*;

#[test]
fn weights_grow_with_age_and_stay_flat_for_the_latest() {
    assert_eq!(recency_weights(3), [1.0; 4]);
    let many = recency_weights(100);
    assert!((many[0] - 0.01).abs() < 1e-12 && many[75..].iter().all(|weight| *weight == 1.0));
    assert!(many.windows(2).all(|pair| pair[0] <= pair[1]));
    assert_eq!(rank_weights(4), [1.0, 0.75, 0.5, 0.25, GOOD_PRIOR]);
}

#[test]
fn thinning_keeps_the_latest_and_spreads_the_rest() {
    let kept = thin((0..10_000).collect());
    assert_eq!(kept.len(), MOST_OTHERS);
    assert!(kept.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(&kept[MOST_OTHERS - MOST_RECENT..], (10_000 - MOST_RECENT as u32..10_000).collect::<Vec<_>>());
    assert_eq!(thin((0..50).collect()).len(), 50);
}
