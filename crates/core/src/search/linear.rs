//! Small dense symmetric matrices, row after row in a flat vector.
//!
//! Sizes are the caller's promise: `matrix.len() == n * n`, and vectors of length `n`. Every index below is a
//! product of numbers under `n` and stays inside.

/// The lower triangle `L` with `L Lᵀ` the matrix; `None` if it is not positive definite.
pub(super) fn cholesky(matrix: &[f64], n: usize) -> Option<Vec<f64>> {
    let mut lower = vec![0.0; n * n];
    for row in 0..n {
        for column in 0..=row {
            let (a, b) = (&lower[row * n..row * n + column], &lower[column * n..column * n + column]);
            let rest = matrix[row * n + column] - dot(a, b);
            lower[row * n + column] = if row == column {
                if !(rest > 0.0 && rest.is_finite()) {
                    return None;
                }
                rest.sqrt()
            } else {
                rest / lower[column * n + column]
            };
        }
    }
    Some(lower)
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    // Four sums at once: the order is fixed, so the result is too, and the additions do not wait for each other.
    let (heads, tails) = (a.chunks_exact(4).zip(b.chunks_exact(4)), a.len().min(b.len()) / 4 * 4);
    let mut sums = [0.0; 4];
    for (x, y) in heads {
        for (sum, (x, y)) in sums.iter_mut().zip(x.iter().zip(y)) {
            *sum += x * y;
        }
    }
    let rest: f64 = a.iter().zip(b).skip(tails).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f64>() + rest
}

/// Solves `L x = b` in place.
pub(super) fn forward(lower: &[f64], n: usize, b: &mut [f64]) {
    for row in 0..n {
        let known = dot(&lower[row * n..row * n + row], &b[..row]);
        b[row] = (b[row] - known) / lower[row * n + row];
    }
}

/// Solves `Lᵀ x = b` in place.
pub(super) fn backward(lower: &[f64], n: usize, b: &mut [f64]) {
    for row in (0..n).rev() {
        b[row] /= lower[row * n + row];
        let value = b[row];
        for (rest, factor) in b[..row].iter_mut().zip(&lower[row * n..row * n + row]) {
            *rest -= value * factor;
        }
    }
}

/// The inverse of the matrix `L Lᵀ`.
pub(super) fn inverse(lower: &[f64], n: usize) -> Vec<f64> {
    // Columns of `L⁻¹`, kept as rows: row `c` is zero before `c`.
    let mut columns = vec![0.0; n * n];
    for column in 0..n {
        columns[column * n + column] = 1.0 / lower[column * n + column];
        for row in column + 1..n {
            let known = dot(&lower[row * n + column..row * n + row], &columns[column * n + column..column * n + row]);
            columns[column * n + row] = -known / lower[row * n + row];
        }
    }
    let mut result = vec![0.0; n * n];
    for a in 0..n {
        for b in 0..=a {
            let value = dot(&columns[a * n + a..a * n + n], &columns[b * n + a..b * n + n]);
            result[a * n + b] = value;
            result[b * n + a] = value;
        }
    }
    result
}

/// Eigenvalues, and eigenvectors as columns of the second matrix, by Jacobi's rotations. `basis` are orthogonal
/// columns to begin with: the nearer they are, the sooner it ends.
pub(super) fn eigen(matrix: &[f64], basis: &[f64], n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut vectors = basis.to_vec();
    let mut a = turned(matrix, basis, n);
    let scale: f64 = a.iter().map(|x| x * x).sum();
    // Converges quadratically; 30 sweeps are never needed and bound the time on nonsense.
    for _ in 0..30 {
        let off: f64 = (0..n * n).filter(|i| i / n != i % n).map(|i| a[i] * a[i]).sum();
        if off <= 1e-24 * scale {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                rotate(&mut a, &mut vectors, n, p, q);
            }
        }
    }
    ((0..n).map(|i| a[i * n + i]).collect(), vectors)
}

/// `Bᵀ M B`.
fn turned(matrix: &[f64], basis: &[f64], n: usize) -> Vec<f64> {
    let mut half = vec![0.0; n * n];
    for row in 0..n {
        for k in 0..n {
            let factor = matrix[row * n + k];
            let (into, from) = (&mut half[row * n..row * n + n], &basis[k * n..k * n + n]);
            into.iter_mut().zip(from).for_each(|(sum, x)| *sum += factor * x);
        }
    }
    let mut whole = vec![0.0; n * n];
    for k in 0..n {
        for row in 0..n {
            let factor = basis[k * n + row];
            let (into, from) = (&mut whole[row * n..row * n + n], &half[k * n..k * n + n]);
            into.iter_mut().zip(from).for_each(|(sum, x)| *sum += factor * x);
        }
    }
    whole
}

pub(super) fn identity(n: usize) -> Vec<f64> {
    (0..n * n).map(|i| if i / n == i % n { 1.0 } else { 0.0 }).collect()
}

fn rotate(a: &mut [f64], vectors: &mut [f64], n: usize, p: usize, q: usize) {
    let off = a[p * n + q];
    if off == 0.0 {
        return;
    }
    let theta = (a[q * n + q] - a[p * n + p]) / (2.0 * off);
    let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
    let c = 1.0 / (t * t + 1.0).sqrt();
    let s = t * c;
    for k in 0..n {
        let (kp, kq) = (a[k * n + p], a[k * n + q]);
        a[k * n + p] = c * kp - s * kq;
        a[k * n + q] = s * kp + c * kq;
    }
    for k in 0..n {
        let (pk, qk) = (a[p * n + k], a[q * n + k]);
        a[p * n + k] = c * pk - s * qk;
        a[q * n + k] = s * pk + c * qk;
        let (vp, vq) = (vectors[k * n + p], vectors[k * n + q]);
        vectors[k * n + p] = c * vp - s * vq;
        vectors[k * n + q] = s * vp + c * vq;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MATRIX: [f64; 9] = [4.0, 1.0, 0.5, 1.0, 3.0, -0.2, 0.5, -0.2, 2.0];

    #[test]
    fn inverse_and_solves_agree() {
        let lower = cholesky(&MATRIX, 3).expect("positive definite");
        let inverse = inverse(&lower, 3);
        let mut x = vec![1.0, -2.0, 0.5];
        let expected: Vec<f64> = (0..3).map(|row| dot(&inverse[row * 3..row * 3 + 3], &x)).collect();
        forward(&lower, 3, &mut x);
        backward(&lower, 3, &mut x);
        assert!(x.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-12));
        assert!(cholesky(&[1.0, 2.0, 2.0, 1.0], 2).is_none());
    }

    #[test]
    fn eigenvectors_rebuild_the_matrix() {
        let other = [2.0, 0.3, 0.1, 0.3, 5.0, 1.0, 0.1, 1.0, 1.0];
        let (_, near) = eigen(&other, &identity(3), 3);
        for basis in [identity(3), near] {
            let (values, vectors) = eigen(&MATRIX, &basis, 3);
            for row in 0..3 {
                for column in 0..3 {
                    let sum: f64 = (0..3).map(|k| vectors[row * 3 + k] * values[k] * vectors[column * 3 + k]).sum();
                    assert!((sum - MATRIX[row * 3 + column]).abs() < 1e-10);
                }
            }
        }
    }
}
