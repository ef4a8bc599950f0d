//! The eigenvalues of a diagonal matrix to which a multiple of a vector times itself is added: the roots
//! of its secular equation, and the vector that has exactly those.

use pulp::{Arch, Simd, WithSimd};

/// Terms of a sum that are computed at once.
const TOGETHER: usize = 8;

/// Steps towards a root, at most. They are a handful.
const STEPS: usize = 100;

/// A diagonal matrix with `weight` times a vector of length one times itself added.
pub(crate) struct Secular<'a> {
    /// The diagonal, in ascending order without repetitions.
    pub poles: &'a [f64],
    /// The squares of the vector's elements, none of which is 0.
    pub squares: &'a [f64],
    /// Positive.
    pub weight: f64,
    /// How far the sums at a root may be from 0, relative to their terms.
    pub tolerance: f64,
}

/// The eigenvalues and eigenvectors.
pub(crate) struct Roots {
    /// The eigenvalues, the smallest first.
    pub values: Vec<f64>,
    /// The eigenvectors as columns.
    pub vectors: Vec<f64>,
}

impl Secular<'_> {
    /// All eigenvalues, and the eigenvectors but for the signs of their elements, which are those of the
    /// vector's elements.
    ///
    /// The vectors are those of a matrix near by, whose roots are exactly the ones found, so that they are
    /// orthogonal however near the roots are to one another: M. Gu and S. Eisenstat, "A stable and
    /// efficient algorithm for the rank-one modification of the symmetric eigenproblem", 1994.
    pub(crate) fn roots(&self) -> Roots {
        Arch::new().dispatch(AllRoots(self))
    }

    /// The root behind the pole `j`. Every difference of a pole and the root goes to `gaps`, with all its
    /// digits.
    #[inline(always)]
    fn root(&self, j: usize, gaps: &mut [f64]) -> f64 {
        let (poles, last) = (self.poles, self.poles.len() - 1);
        let place = match j == last {
            true => self.last_root(),
            false => self.inner_root(j),
        };
        for (gap, &pole) in gaps.iter_mut().zip(poles) {
            *gap = (pole - place.origin) - place.shift;
        }
        place.origin + place.shift
    }

    #[inline(always)]
    fn inner_root(&self, j: usize) -> Place {
        let (below, above) = (self.poles[j], self.poles[j + 1]);
        let gap = above - below;
        let middle = self.sums(j + 1, Place { origin: below, shift: 0.5 * gap });
        let left = middle.total > 0.0;
        let (origin, ends) = if left { (below, [0.0, gap]) } else { (above, [-gap, 0.0]) };
        // What is neither of the two poles is taken for constant at first.
        let [first, second] = [self.squares[j], self.squares[j + 1]];
        let constant = middle.total + 2.0 * (first - second) / gap;
        let bracket = if left { [0.0, 0.5 * gap] } else { [-0.5 * gap, 0.0] };
        let guess = between(constant, ends, [first, second]);
        self.search(j + 1, origin, ends, bracket, guess)
    }

    #[inline(always)]
    fn last_root(&self) -> Place {
        let last = self.poles.len() - 1;
        let origin = self.poles[last];
        if last == 0 {
            return Place { origin, shift: self.weight * self.squares[0] };
        }
        let reach = self.weight * self.squares.iter().sum::<f64>();
        let ends = [self.poles[last - 1] - origin, 0.0];
        self.search(last, origin, ends, [0.0, reach], 0.5 * reach)
    }

    /// The root within the bracket, of the function with one fraction at each end for the poles before
    /// `cut` and those from there on: R.-C. Li, "Solving secular equations stably and efficiently", 1993.
    #[inline(always)]
    fn search(
        &self,
        cut: usize,
        origin: f64,
        ends: [f64; 2],
        mut bracket: [f64; 2],
        guess: f64,
    ) -> Place {
        let mut shift = guess;
        for _ in 0..STEPS {
            if !(shift > bracket[0] && shift < bracket[1]) {
                shift = 0.5 * (bracket[0] + bracket[1]);
                if !(shift > bracket[0] && shift < bracket[1]) {
                    break;
                }
            }
            let sums = self.sums(cut, Place { origin, shift });
            let [before, behind] = sums.slopes;
            if sums.total.abs() <= self.tolerance * (sums.size + shift.abs() * (before + behind)) {
                break;
            }
            bracket[usize::from(sums.total > 0.0)] = shift;
            let gaps = [ends[0] - shift, ends[1] - shift];
            let constant = sums.total - gaps[0] * before - gaps[1] * behind;
            let residues = [gaps[0] * gaps[0] * before, gaps[1] * gaps[1] * behind];
            shift += match gaps[1] > 0.0 {
                true => between(constant, gaps, residues),
                false => beyond(constant, gaps, residues),
            };
        }
        Place { origin, shift }
    }

    /// The secular function and its slope at a place, apart for the poles before `cut` and those behind.
    #[inline(always)]
    fn sums(&self, cut: usize, place: Place) -> Sums {
        let (poles, squares) = (self.poles.split_at(cut), self.squares.split_at(cut));
        let (before, slope_before) = fractions(poles.0, squares.0, place);
        let (behind, slope_behind) = fractions(poles.1, squares.1, place);
        let base = 1.0 / self.weight;
        Sums {
            total: base + before + behind,
            size: base + 8.0 * (before.abs() + behind.abs()),
            slopes: [slope_before, slope_behind],
        }
    }

    /// Makes ones the elements of the vector whose matrix has exactly the roots with these differences to
    /// the poles, up to a factor for all, and without their signs.
    #[inline(always)]
    fn exact_elements(&self, gaps: &[f64], products: &mut [f64]) {
        let (poles, count) = (self.poles, self.poles.len());
        for (j, gaps) in gaps.chunks_exact(count.max(1)).enumerate() {
            let pole = poles[j];
            multiply(&mut products[..j], &gaps[..j], &poles[..j], pole);
            products[j] *= gaps[j];
            multiply(&mut products[j + 1..], &gaps[j + 1..], &poles[j + 1..], pole);
        }
        for product in products {
            *product = product.abs().sqrt();
        }
    }
}

/// Multiplies each with `gap / (pole - other)`.
#[inline(always)]
fn multiply(products: &mut [f64], gaps: &[f64], poles: &[f64], other: f64) {
    for ((product, gap), pole) in products.iter_mut().zip(gaps).zip(poles) {
        *product *= gap / (pole - other);
    }
}

/// A number as a sum.
#[derive(Clone, Copy)]
struct Place {
    origin: f64,
    shift: f64,
}

struct Sums {
    total: f64,
    /// The sum of the sizes of all terms.
    size: f64,
    slopes: [f64; 2],
}

/// The sum of `square / (pole - place)`, and its slope.
#[inline(always)]
fn fractions(poles: &[f64], squares: &[f64], place: Place) -> (f64, f64) {
    let (mut sums, mut slopes) = ([0.0; TOGETHER], [0.0; TOGETHER]);
    let (poles, poles_left) = poles.as_chunks::<TOGETHER>();
    let (squares, squares_left) = squares.as_chunks::<TOGETHER>();
    for (poles, squares) in poles.iter().zip(squares) {
        for lane in 0..TOGETHER {
            let one = 1.0 / ((poles[lane] - place.origin) - place.shift);
            let term = squares[lane] * one;
            sums[lane] += term;
            slopes[lane] += term * one;
        }
    }
    for (lane, (pole, square)) in poles_left.iter().zip(squares_left).enumerate() {
        let one = 1.0 / ((pole - place.origin) - place.shift);
        sums[lane] += square * one;
        slopes[lane] += square * one * one;
    }
    (sums.iter().sum(), slopes.iter().sum())
}

/// The root of `constant + residues[0] / (poles[0] - x) + residues[1] / (poles[1] - x)` between the poles.
#[inline(always)]
fn between(constant: f64, poles: [f64; 2], residues: [f64; 2]) -> f64 {
    let (a, b, root) = quadratic(constant, poles, residues);
    if a <= 0.0 { (a - root) / (2.0 * constant) } else { 2.0 * b / (a + root) }
}

/// The root of the same beyond the second pole.
#[inline(always)]
fn beyond(constant: f64, poles: [f64; 2], residues: [f64; 2]) -> f64 {
    let (a, b, root) = quadratic(constant, poles, residues);
    if a >= 0.0 { (a + root) / (2.0 * constant) } else { 2.0 * b / (a - root) }
}

/// The factors of `constant * x² - a * x + b`, which has the same roots, and the root of its discriminant.
#[inline(always)]
fn quadratic(constant: f64, [p, q]: [f64; 2], [r, s]: [f64; 2]) -> (f64, f64, f64) {
    let a = constant * (p + q) + r + s;
    let b = constant * p * q + r * q + s * p;
    (a, b, (a * a - 4.0 * constant * b).abs().sqrt())
}

struct AllRoots<'a, 'b>(&'a Secular<'b>);

impl WithSimd for AllRoots<'_, '_> {
    type Output = Roots;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Roots {
        // Loops and no iterators that collect, which would not be compiled for the processor.
        let count = self.0.poles.len();
        let (mut gaps, mut values) = (vec![0.0; count * count], vec![0.0; count]);
        for (j, gaps) in gaps.chunks_exact_mut(count.max(1)).enumerate() {
            values[j] = self.0.root(j, gaps);
        }
        let mut elements = vec![1.0; count];
        self.0.exact_elements(&gaps, &mut elements);
        for vector in gaps.chunks_exact_mut(count.max(1)) {
            let mut squares = [0.0; TOGETHER];
            for (gaps, elements) in vector.chunks_mut(TOGETHER).zip(elements.chunks(TOGETHER)) {
                for (lane, (gap, element)) in gaps.iter_mut().zip(elements).enumerate() {
                    *gap = element / *gap;
                    squares[lane] += *gap * *gap;
                }
            }
            let length = squares.iter().sum::<f64>().sqrt();
            vector.iter_mut().for_each(|element| *element /= length);
        }
        Roots { values, vectors: gaps }
    }
}
