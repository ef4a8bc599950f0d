//! The eigenvalues of a diagonal matrix to which a multiple of a vector times itself is added: the roots
//! of its secular equation, and the vector that has exactly those.

use crate::Run;
use crate::share::{COLUMNS, share};
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
    pub(crate) fn roots(&self, run: Run) -> Roots {
        let count = self.poles.len();
        let (mut values, mut gaps) = (vec![0.0; count], vec![0.0; count * count]);
        let mut elements = vec![1.0; count];
        let (arch, part) = (Arch::new(), count * COLUMNS);
        if count > 0 {
            let parts = values.chunks_mut(COLUMNS).zip(gaps.chunks_mut(part));
            share(run, parts.enumerate(), |(k, (values, gaps))| {
                arch.dispatch(SomeRoots { secular: self, first: k * COLUMNS, values, gaps });
            });
            share(run, elements.chunks_mut(COLUMNS).enumerate(), |(k, elements)| {
                let (gaps, first) = (&gaps[..], k * COLUMNS);
                arch.dispatch(SomeElements { secular: self, first, gaps, elements });
            });
            share(run, gaps.chunks_mut(part), |gaps| {
                arch.dispatch(SomeVectors { elements: &elements, gaps });
            });
        }
        Roots { values, vectors: gaps }
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

    /// Makes ones the elements, from `first` on, of the vector whose matrix has exactly the roots with these
    /// differences to the poles, up to a factor for all, and without their signs.
    #[inline(always)]
    fn exact_elements(&self, first: usize, gaps: &[f64], products: &mut [f64]) {
        let (count, end) = (self.poles.len(), first + products.len());
        let poles = &self.poles[first..end];
        for (j, gaps) in gaps.chunks_exact(count).enumerate() {
            let (pole, gaps) = (self.poles[j], &gaps[first..end]);
            let (before, behind) = (j.clamp(first, end) - first, (j + 1).clamp(first, end) - first);
            multiply(&mut products[..before], &gaps[..before], &poles[..before], pole);
            for (product, gap) in products[before..behind].iter_mut().zip(&gaps[before..behind]) {
                *product *= gap;
            }
            multiply(&mut products[behind..], &gaps[behind..], &poles[behind..], pole);
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

// Loops and no iterators that collect, which would not be compiled for the processor.

/// Finds the roots from the one at `first` on, and their differences to the poles.
struct SomeRoots<'a, 'b> {
    secular: &'a Secular<'b>,
    first: usize,
    values: &'a mut [f64],
    gaps: &'a mut [f64],
}

impl WithSimd for SomeRoots<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let gaps = self.gaps.chunks_exact_mut(self.secular.poles.len());
        for (k, (value, gaps)) in self.values.iter_mut().zip(gaps).enumerate() {
            *value = self.secular.root(self.first + k, gaps);
        }
    }
}

/// The elements of the vector from the one at `first` on.
struct SomeElements<'a, 'b> {
    secular: &'a Secular<'b>,
    first: usize,
    gaps: &'a [f64],
    elements: &'a mut [f64],
}

impl WithSimd for SomeElements<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.secular.exact_elements(self.first, self.gaps, self.elements);
    }
}

/// Makes eigenvectors of the differences of their roots to the poles.
struct SomeVectors<'a> {
    elements: &'a [f64],
    gaps: &'a mut [f64],
}

impl WithSimd for SomeVectors<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for vector in self.gaps.chunks_exact_mut(self.elements.len()) {
            let mut squares = [0.0; TOGETHER];
            for (gaps, elements) in vector.chunks_mut(TOGETHER).zip(self.elements.chunks(TOGETHER))
            {
                for (lane, (gap, element)) in gaps.iter_mut().zip(elements).enumerate() {
                    *gap = element / *gap;
                    squares[lane] += *gap * *gap;
                }
            }
            let length = squares.iter().sum::<f64>().sqrt();
            vector.iter_mut().for_each(|element| *element /= length);
        }
    }
}
