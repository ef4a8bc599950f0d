//! The eigenvalues of a diagonal matrix to which a multiple of a vector times itself is added: the roots
//! of its secular equation, and the vector that has exactly those. Those of a diagonal of squares are
//! the squares of the singular values of a matrix with a diagonal and one row.

use crate::Run;
use crate::divide::Number;
use crate::join::Column;
use crate::share::{COLUMNS, share};
use pulp::{Arch, Simd, WithSimd};

/// Terms of a sum that are computed at once.
const TOGETHER: usize = 8;

/// Steps towards a root, at most. They are a handful.
const STEPS: usize = 100;

/// A diagonal matrix with `weight` times a vector times itself added.
///
/// Where `SQUARED`, the diagonal is one of squares, and known by their roots, so that what two of them
/// differ by keeps its digits.
pub(crate) struct Secular<const SQUARED: bool> {
    /// The diagonal, in ascending order without repetitions.
    poles: Vec<f64>,
    /// The squares of the vector's elements, none of which is 0.
    squares: Vec<f64>,
    /// Positive.
    weight: f64,
    /// How far the sums at a root may be from 0, relative to their terms.
    tolerance: f64,
    /// The poles in the order of the eigenvectors' rows.
    row_poles: Vec<f64>,
    /// The rows of the poles.
    rows: Vec<usize>,
}

/// The eigenvalues and eigenvectors, or the singular values and the right singular vectors.
pub(crate) struct Roots {
    /// The values, the smallest first.
    pub values: Vec<f64>,
    /// The vectors as columns.
    vectors: Vec<f64>,
    /// The vector that has exactly these values, in the order of their rows.
    elements: Vec<f64>,
    /// The poles in that order.
    poles: Vec<f64>,
}

impl<const SQUARED: bool> Secular<SQUARED> {
    /// The equation of columns with ascending poles; `order` are those that belong to the rows of the
    /// eigenvectors. The length of their elements' vector is at most of size one.
    pub(crate) fn new<T: Number>(columns: &[Column], order: &[usize], weight: f64) -> Self {
        let mut rows = vec![0; order.len()];
        for (row, &column) in order.iter().enumerate() {
            rows[column] = row;
        }
        Self {
            poles: columns.iter().map(|column| column.pole).collect(),
            squares: columns.iter().map(|column| column.element.powi(2)).collect(),
            weight,
            tolerance: T::TOLERANCE,
            row_poles: order.iter().map(|&column| columns[column].pole).collect(),
            rows,
        }
    }

    /// All values, and the vectors.
    ///
    /// The vectors are those of a matrix near by, whose roots are exactly the ones found, so that they are
    /// orthogonal however near the roots are to one another: M. Gu and S. Eisenstat, "A stable and
    /// efficient algorithm for the rank-one modification of the symmetric eigenproblem", 1994. The
    /// elements of its vector have the signs of the `columns`.
    pub(crate) fn roots(self, columns: &[Column], run: Run) -> Roots {
        let count = self.poles.len();
        let (mut values, mut gaps) = (vec![0.0; count], vec![0.0; count * count]);
        let mut elements = vec![1.0; count];
        let (arch, part) = (Arch::new(), count * COLUMNS);
        if count > 0 {
            let parts = values.chunks_mut(COLUMNS).zip(gaps.chunks_mut(part));
            share(run, parts.enumerate(), |(k, (values, gaps))| {
                arch.dispatch(SomeRoots { secular: &self, first: k * COLUMNS, values, gaps });
            });
            share(run, elements.chunks_mut(COLUMNS).enumerate(), |(k, elements)| {
                let (gaps, first) = (&gaps[..], k * COLUMNS);
                arch.dispatch(SomeElements { secular: &self, first, gaps, elements });
            });
            for (column, &row) in columns.iter().zip(&self.rows) {
                elements[row] = elements[row].copysign(column.element);
            }
            share(run, gaps.chunks_mut(part), |gaps| {
                arch.dispatch(SomeVectors { elements: &elements, gaps });
            });
        }
        Roots { values, vectors: gaps, elements, poles: self.row_poles }
    }

    /// The root behind the pole `j`. Every difference of a pole and the root goes to `gaps`, with all its
    /// digits.
    #[inline(always)]
    fn root(&self, j: usize, gaps: &mut [f64]) -> f64 {
        let last = self.poles.len() - 1;
        let place = match j == last {
            true => self.last_root(),
            false => self.inner_root(j),
        };
        for (gap, &pole) in gaps.iter_mut().zip(&self.row_poles) {
            *gap = apart::<SQUARED>(pole, place.origin) - place.shift;
        }
        place.value::<SQUARED>()
    }

    #[inline(always)]
    fn inner_root(&self, j: usize) -> Place {
        let (below, above) = (self.poles[j], self.poles[j + 1]);
        let gap = apart::<SQUARED>(above, below);
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
        let ends = [apart::<SQUARED>(self.poles[last - 1], origin), 0.0];
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
        let (before, slope_before) = fractions::<SQUARED>(poles.0, squares.0, place);
        let (behind, slope_behind) = fractions::<SQUARED>(poles.1, squares.1, place);
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
        let poles = &self.row_poles[first..end];
        for (j, gaps) in gaps.chunks_exact(count).enumerate() {
            let (pole, row, gaps) = (self.poles[j], self.rows[j], &gaps[first..end]);
            let [before, behind] = [row, row + 1].map(|row| row.clamp(first, end) - first);
            multiply::<SQUARED>(&mut products[..before], &gaps[..before], &poles[..before], pole);
            for (product, gap) in products[before..behind].iter_mut().zip(&gaps[before..behind]) {
                *product *= gap;
            }
            multiply::<SQUARED>(&mut products[behind..], &gaps[behind..], &poles[behind..], pole);
        }
        for product in products {
            *product = product.abs().sqrt();
        }
    }
}

impl Roots {
    /// Writes vectors, from the one at `first` on.
    pub(crate) fn vectors<T: Number>(&self, first: usize, to: &mut [T]) {
        let vectors = &self.vectors[first * self.poles.len()..];
        for (to, &element) in to.iter_mut().zip(vectors) {
            *to = T::of(element);
        }
    }

    /// Writes left singular vectors, from the one at `first` on, of the matrix with the poles on the
    /// diagonal but for the elements in the row of the pole 0, which `corner` has in the vectors.
    pub(crate) fn left_vectors<T: Number>(&self, first: usize, corner: usize, to: &mut [T]) {
        Arch::new().dispatch(SomeLeftVectors { roots: self, first, corner, to });
    }
}

/// Multiplies each with `gap` by what `pole` is apart from the other one.
#[inline(always)]
fn multiply<const SQUARED: bool>(products: &mut [f64], gaps: &[f64], poles: &[f64], other: f64) {
    for ((product, gap), pole) in products.iter_mut().zip(gaps).zip(poles) {
        *product *= gap / apart::<SQUARED>(*pole, other);
    }
}

/// What a number, or its square, is more than another one, or its square.
#[inline(always)]
fn apart<const SQUARED: bool>(x: f64, y: f64) -> f64 {
    if SQUARED { (x - y) * (x + y) } else { x - y }
}

/// A number, or its square, as a sum of a pole, or its square, and a shift.
#[derive(Clone, Copy)]
struct Place {
    origin: f64,
    shift: f64,
}

impl Place {
    #[inline(always)]
    fn value<const SQUARED: bool>(self) -> f64 {
        let Self { origin, shift } = self;
        match SQUARED {
            true => origin + shift / (origin + (origin * origin + shift).sqrt()),
            false => origin + shift,
        }
    }
}

struct Sums {
    total: f64,
    /// The sum of the sizes of all terms.
    size: f64,
    slopes: [f64; 2],
}

/// The sum of `square / (pole - place)`, and its slope.
#[inline(always)]
fn fractions<const SQUARED: bool>(poles: &[f64], squares: &[f64], place: Place) -> (f64, f64) {
    let (mut sums, mut slopes) = ([0.0; TOGETHER], [0.0; TOGETHER]);
    let (poles, poles_left) = poles.as_chunks::<TOGETHER>();
    let (squares, squares_left) = squares.as_chunks::<TOGETHER>();
    for (poles, squares) in poles.iter().zip(squares) {
        for lane in 0..TOGETHER {
            let one = 1.0 / (apart::<SQUARED>(poles[lane], place.origin) - place.shift);
            let term = squares[lane] * one;
            sums[lane] += term;
            slopes[lane] += term * one;
        }
    }
    for (lane, (pole, square)) in poles_left.iter().zip(squares_left).enumerate() {
        let one = 1.0 / (apart::<SQUARED>(*pole, place.origin) - place.shift);
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
struct SomeRoots<'a, const SQUARED: bool> {
    secular: &'a Secular<SQUARED>,
    first: usize,
    values: &'a mut [f64],
    gaps: &'a mut [f64],
}

impl<const SQUARED: bool> WithSimd for SomeRoots<'_, SQUARED> {
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
struct SomeElements<'a, const SQUARED: bool> {
    secular: &'a Secular<SQUARED>,
    first: usize,
    gaps: &'a [f64],
    elements: &'a mut [f64],
}

impl<const SQUARED: bool> WithSimd for SomeElements<'_, SQUARED> {
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

/// The left vectors that belong to right ones.
struct SomeLeftVectors<'a, T> {
    roots: &'a Roots,
    first: usize,
    corner: usize,
    to: &'a mut [T],
}

impl<T: Number> WithSimd for SomeLeftVectors<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Roots { values, vectors, elements, poles } = self.roots;
        let count = poles.len();
        let vectors = vectors.chunks_exact(count).zip(values).skip(self.first);
        for (to, (vector, value)) in self.to.chunks_exact_mut(count).zip(vectors) {
            let mut squares = [0.0; TOGETHER];
            for (vector, poles) in vector.chunks(TOGETHER).zip(poles.chunks(TOGETHER)) {
                for (lane, (x, pole)) in vector.iter().zip(poles).enumerate() {
                    squares[lane] += (x * pole) * (x * pole);
                }
            }
            // Minus one, divided by what the right vector was.
            let one = vector[self.corner] * (value * value / elements[self.corner]);
            let factor = 1.0 / (squares.iter().sum::<f64>() + one * one).sqrt();
            for ((to, x), pole) in to.iter_mut().zip(vector).zip(poles) {
                *to = T::of(x * pole * factor);
            }
            to[self.corner] = T::of(one * factor);
        }
    }
}
