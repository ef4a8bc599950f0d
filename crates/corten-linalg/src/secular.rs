//! The secular equation, LAPACK's `laed4` and `lasd4`, after R.-C. Li, "Solving secular equations stably and
//! efficiently", 1993.
//!
//! Its roots are the eigenvalues of a diagonal matrix to which a multiple of a vector times itself is added; wanted is
//! also the vector that has exactly those. Those of a diagonal of squares are the squares of the singular values of a
//! matrix with a diagonal and one row.

use crate::blas::Run;
use crate::merge::Column;
use crate::parallel::{COLUMNS, share};
use crate::tridiagonal_dc::Real;
use pulp::{Arch, Simd, WithSimd};

/// Two of the widest vectors: rows are filled up to a multiple of so many.
const TOGETHER: usize = 16;

/// Roots whose quotients are divided at once.
const QUOTIENTS: usize = 4;

/// Steps towards a root, at most. They are a handful.
const STEPS: usize = 100;

/// A diagonal matrix with `weight` times a vector times itself added.
///
/// Where `SQUARED`, the diagonal is one of squares, and known by their roots, so that what two of them
/// differ by keeps its digits.
pub(crate) struct Secular<const SQUARED: bool> {
    /// The diagonal, in ascending order without repetitions, filled up with what is beyond every root.
    poles: Vec<f64>,
    /// The squares of the vector's elements, none of which is 0, filled up with zeros.
    squares: Vec<f64>,
    /// Their number.
    count: usize,
    /// Positive.
    weight: f64,
    /// How far the sums at a root may be from 0, relative to their terms.
    tolerance: f64,
    /// The poles in the order of the eigenvectors' rows.
    row_poles: Vec<f64>,
    /// The elements in that order, but for their sizes.
    signs: Vec<f64>,
}

/// The eigenvalues and eigenvectors, or the singular values and the right singular vectors.
pub(crate) struct Roots {
    /// The values, the smallest first.
    pub values: Vec<f64>,
    /// The vectors as columns, filled up with zeros.
    vectors: Vec<f64>,
    /// The vector that has exactly these values, in the order of their rows.
    elements: Vec<f64>,
    /// The poles in that order.
    poles: Vec<f64>,
}

impl<const SQUARED: bool> Secular<SQUARED> {
    /// The equation of columns with ascending poles; `order` are those that belong to the rows of the
    /// eigenvectors. Neither poles nor elements are large.
    pub(crate) fn new<T: Real>(columns: &[Column], order: &[usize], weight: f64) -> Self {
        let count = columns.len();
        let mut squares: Vec<_> = columns.iter().map(|column| column.element.powi(2)).collect();
        let last = columns.last().map_or(0.0, |column| column.pole);
        let beyond = last + weight * squares.iter().sum::<f64>() + 1.0;
        let filled = count.next_multiple_of(TOGETHER);
        squares.resize(filled, 0.0);
        let fill = |poles: &mut dyn Iterator<Item = f64>| {
            poles.chain(std::iter::repeat(beyond)).take(filled).collect()
        };
        Self {
            poles: fill(&mut columns.iter().map(|column| column.pole)),
            squares,
            count,
            weight,
            tolerance: T::TOLERANCE,
            row_poles: fill(&mut order.iter().map(|&k| columns[k].pole)),
            signs: order.iter().map(|&k| columns[k].element).collect(),
        }
    }

    /// All values, and the vectors.
    ///
    /// The vectors are those of a matrix near by, whose roots are exactly the ones found, so that they are
    /// orthogonal however near the roots are to one another: M. Gu and S. Eisenstat, "A stable and
    /// efficient algorithm for the rank-one modification of the symmetric eigenproblem", 1994. The
    /// elements of its vector have the signs of the columns'.
    pub(crate) fn roots(self, run: Run) -> Roots {
        let (count, filled) = (self.count, self.poles.len());
        let (mut values, mut gaps) = (vec![0.0; count], vec![0.0; count * filled]);
        let mut elements = vec![1.0; filled];
        let (arch, part) = (Arch::new(), filled * COLUMNS);
        if count > 0 {
            let parts = values.chunks_mut(COLUMNS).zip(gaps.chunks_mut(part));
            share(run, parts.enumerate(), |(k, (values, gaps))| {
                arch.dispatch(SomeRoots { secular: &self, first: k * COLUMNS, values, gaps });
            });
            share(run, elements.chunks_mut(COLUMNS).enumerate(), |(k, elements)| {
                let (gaps, first) = (&gaps[..], k * COLUMNS);
                arch.dispatch(SomeElements { secular: &self, first, gaps, elements });
            });
            for (element, sign) in elements.iter_mut().zip(&self.signs) {
                *element = element.abs().sqrt().copysign(*sign);
            }
            elements[count..].fill(0.0);
            share(run, gaps.chunks_mut(part), |gaps| {
                arch.dispatch(SomeVectors { elements: &elements, gaps });
            });
        }
        Roots { values, vectors: gaps, elements, poles: self.row_poles }
    }

    /// The root behind the pole `j`. Every difference of a pole and the root goes to `gaps`, with all its
    /// digits.
    #[inline(always)]
    fn root<S: Simd>(&self, simd: S, j: usize, gaps: &mut [f64]) -> f64 {
        let place = match j + 1 == self.count {
            true => self.last_root(simd),
            false => self.inner_root(simd, j),
        };
        let distance = Distance::<S, SQUARED>::new(simd, place);
        let (gaps, poles) = (S::as_mut_simd_f64s(gaps).0, S::as_simd_f64s(&self.row_poles).0);
        for (gap, &pole) in gaps.iter_mut().zip(poles) {
            *gap = distance.of(pole);
        }
        place.value::<SQUARED>()
    }

    #[inline(always)]
    fn inner_root<S: Simd>(&self, simd: S, j: usize) -> ShiftedRoot {
        let (below, above) = (self.poles[j], self.poles[j + 1]);
        let gap = apart::<SQUARED>(above, below);
        let middle = self.sums(simd, j + 1, ShiftedRoot { origin: below, shift: 0.5 * gap });
        let left = middle.total > 0.0;
        let (origin, ends) = if left { (below, [0.0, gap]) } else { (above, [-gap, 0.0]) };
        // All other poles are taken for more of the farther one, by the slope in the middle.
        let both = 0.25 * gap * gap * (middle.slopes[0] + middle.slopes[1]);
        let near = self.squares[if left { j } else { j + 1 }];
        let [first, second] = if left { [near, both - near] } else { [both - near, near] };
        let constant = middle.total + 2.0 * (first - second) / gap;
        let bracket = if left { [0.0, 0.5 * gap] } else { [-0.5 * gap, 0.0] };
        let a = constant * (ends[0] + ends[1]) + first + second;
        let b = ends[1] * first + ends[0] * second;
        let guess = between(constant, a, b);
        self.search(simd, j + 1, origin, ends, bracket, guess)
    }

    #[inline(always)]
    fn last_root<S: Simd>(&self, simd: S) -> ShiftedRoot {
        let last = self.count - 1;
        let origin = self.poles[last];
        if last == 0 {
            return ShiftedRoot { origin, shift: self.weight * self.squares[0] };
        }
        let reach = self.weight * self.squares.iter().sum::<f64>();
        let ends = [apart::<SQUARED>(self.poles[last - 1], origin), 0.0];
        self.search(simd, last, origin, ends, [0.0, reach], 0.5 * reach)
    }

    /// The root within the bracket, of the function with one fraction at each end for the poles before
    /// `cut` and those from there on: R.-C. Li, "Solving secular equations stably and efficiently", 1993.
    #[inline(always)]
    fn search<S: Simd>(
        &self,
        simd: S,
        cut: usize,
        origin: f64,
        ends: [f64; 2],
        mut bracket: [f64; 2],
        guess: f64,
    ) -> ShiftedRoot {
        let (mut shift, mut is_near) = (guess, false);
        for _ in 0..STEPS {
            let is_inside = |shift: f64| shift > bracket[0] && shift < bracket[1];
            match is_inside(shift) {
                true if is_near => break,
                true => {}
                false => shift = 0.5 * (bracket[0] + bracket[1]),
            }
            if !is_inside(shift) {
                break;
            }
            let sums = self.sums(simd, cut, ShiftedRoot { origin, shift });
            let [before, behind] = sums.slopes;
            let slope = before + behind;
            if sums.total.abs() <= self.tolerance * (sums.size + shift.abs() * slope) {
                break;
            }
            bracket[usize::from(sums.total > 0.0)] = shift;
            let gaps = [ends[0] - shift, ends[1] - shift];
            let constant = sums.total - gaps[0] * before - gaps[1] * behind;
            let a = sums.total * (gaps[0] + gaps[1]) - gaps[0] * gaps[1] * slope;
            let b = sums.total * gaps[0] * gaps[1];
            let step = match gaps[1] > 0.0 {
                true => between(constant, a, b),
                false => beyond(constant, a, b),
            };
            // What a step leaves is like its square.
            is_near = step * step <= self.tolerance * shift * shift;
            shift += step;
        }
        ShiftedRoot { origin, shift }
    }

    /// The secular function and its slope at a place, apart for the poles before `cut` and those behind.
    #[inline(always)]
    fn sums<S: Simd>(&self, simd: S, cut: usize, place: ShiftedRoot) -> Sums {
        let distance = Distance::<S, SQUARED>::new(simd, place);
        let (poles, squares) = (S::as_simd_f64s(&self.poles).0, S::as_simd_f64s(&self.squares).0);
        let (poles, squares) = (poles.as_chunks::<2>().0, squares.as_chunks::<2>().0);
        let middle = cut * poles.len() / self.poles.len();
        let (mut before, mut behind) = (Sum::none(simd), Sum::none(simd));
        for (poles, squares) in poles[..middle].iter().zip(squares) {
            let [one, other] = distance.terms(poles, squares);
            before.add(one);
            before.add(other);
        }
        for (poles, squares) in poles[middle + 1..].iter().zip(&squares[middle + 1..]) {
            let [one, other] = distance.terms(poles, squares);
            behind.add(one);
            behind.add(other);
        }
        let terms = distance.terms(&poles[middle], &squares[middle]);
        let first_behind = simd.splat_f64s(self.poles[cut]);
        for (&pole, term) in poles[middle].iter().zip(terms) {
            let is_before = simd.less_than_f64s(pole, first_behind);
            before.add_some(is_before, term, true);
            behind.add_some(is_before, term, false);
        }
        let ([before, slope_before], [behind, slope_behind]) = (before.total(), behind.total());
        let base = 1.0 / self.weight;
        Sums {
            total: base + before + behind,
            size: base + 8.0 * (before.abs() + behind.abs()),
            slopes: [slope_before, slope_behind],
        }
    }

    /// Multiplies the squares of the elements, from `first` on, of the vector whose matrix has exactly the
    /// roots with these differences to the poles, up to a factor for all, to ones.
    #[inline(always)]
    fn exact_squares<S: Simd>(&self, simd: S, first: usize, gaps: &[f64], products: &mut [f64]) {
        let (groups, left) = self.poles[..self.count].as_chunks::<QUOTIENTS>();
        let (grouped, gaps_left) = gaps.split_at(groups.as_flattened().len() * self.poles.len());
        for (poles, gaps) in groups.iter().zip(grouped.chunks(QUOTIENTS * self.poles.len())) {
            self.multiply(simd, poles, gaps, first, products);
        }
        for (&pole, gaps) in left.iter().zip(gaps_left.chunks(self.poles.len())) {
            self.multiply(simd, &[pole], gaps, first, products);
        }
    }

    /// Multiplies them with the quotients of some roots.
    #[inline(always)]
    fn multiply<S: Simd, const COUNT: usize>(
        &self,
        simd: S,
        poles: &[f64; COUNT],
        gaps: &[f64],
        first: usize,
        products: &mut [f64],
    ) {
        let rows = first..first + products.len();
        let own = S::as_simd_f64s(&self.row_poles[rows.clone()]).0;
        let (zero, one) = (simd.splat_f64s(0.0), simd.splat_f64s(1.0));
        let products = S::as_mut_simd_f64s(products).0;
        for (k, (product, &own)) in products.iter_mut().zip(own).enumerate() {
            let (mut above, mut below) = (*product, one);
            for (&origin, gaps) in poles.iter().zip(gaps.chunks_exact(self.poles.len())) {
                let gap = S::as_simd_f64s(&gaps[rows.clone()]).0[k];
                let place = ShiftedRoot { origin, shift: 0.0 };
                let apart = Distance::<S, SQUARED>::new(simd, place).of(own);
                let is_own = simd.equal_f64s(apart, zero);
                above = simd.mul_f64s(above, gap);
                below = simd.mul_f64s(below, simd.select_f64s(is_own, one, apart));
            }
            *product = simd.div_f64s(above, below);
        }
    }
}

impl Roots {
    /// Writes vectors, from the one at `first` on.
    pub(crate) fn vectors<T: Real>(&self, first: usize, to: &mut [T]) {
        Arch::new().dispatch(SomeFactors { roots: self, first, corner: None, to });
    }

    /// Writes left singular vectors, from the one at `first` on, of the matrix with the poles on the
    /// diagonal but for the elements in the row of the pole 0, which `corner` has in the vectors.
    pub(crate) fn left_vectors<T: Real>(&self, first: usize, corner: usize, to: &mut [T]) {
        Arch::new().dispatch(SomeFactors { roots: self, first, corner: Some(corner), to });
    }

    /// What the products of poles and elements of a right vector are multiplied by in the left one, and the
    /// element in the row of the pole 0.
    #[inline(always)]
    fn left_factor<S: Simd>(&self, simd: S, vector: &[f64], value: f64, corner: usize) -> [f64; 2] {
        let mut squares = simd.splat_f64s(0.0);
        for (&x, &pole) in S::as_simd_f64s(vector).0.iter().zip(S::as_simd_f64s(&self.poles).0) {
            let term = simd.mul_f64s(x, pole);
            squares = simd.add_f64s(squares, simd.mul_f64s(term, term));
        }
        // Minus one, divided by what the right vector was.
        let one = vector[corner] * (value * value / self.elements[corner]);
        let factor = 1.0 / (simd.reduce_sum_f64s(squares) + one * one).sqrt();
        [factor, one * factor]
    }
}

/// What a number, or its square, is more than another one, or its square.
#[inline(always)]
fn apart<const SQUARED: bool>(x: f64, y: f64) -> f64 {
    if SQUARED { (x - y) * (x + y) } else { x - y }
}

/// A number, or its square, as a sum of a pole, or its square, and a shift.
#[derive(Clone, Copy)]
struct ShiftedRoot {
    origin: f64,
    shift: f64,
}

impl ShiftedRoot {
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

/// What takes a place from poles.
struct Distance<S: Simd, const SQUARED: bool> {
    simd: S,
    origin: S::f64s,
    shift: S::f64s,
}

impl<S: Simd, const SQUARED: bool> Distance<S, SQUARED> {
    #[inline(always)]
    fn new(simd: S, place: ShiftedRoot) -> Self {
        Self { simd, origin: simd.splat_f64s(place.origin), shift: simd.splat_f64s(place.shift) }
    }

    #[inline(always)]
    fn of(&self, pole: S::f64s) -> S::f64s {
        let mut apart = self.simd.sub_f64s(pole, self.origin);
        if SQUARED {
            apart = self.simd.mul_f64s(apart, self.simd.add_f64s(pole, self.origin));
        }
        self.simd.sub_f64s(apart, self.shift)
    }

    /// The terms `square / distance` of the secular function, and their slopes.
    #[inline(always)]
    fn terms(&self, poles: &[S::f64s; 2], squares: &[S::f64s; 2]) -> [[S::f64s; 2]; 2] {
        let simd = self.simd;
        let (one, other) = (self.of(poles[0]), self.of(poles[1]));
        // Divisions take long: one does for two terms.
        let both = simd.div_f64s(simd.splat_f64s(1.0), simd.mul_f64s(one, other));
        let (one, other) = (simd.mul_f64s(both, other), simd.mul_f64s(both, one));
        let terms = [simd.mul_f64s(squares[0], one), simd.mul_f64s(squares[1], other)];
        [[terms[0], simd.mul_f64s(terms[0], one)], [terms[1], simd.mul_f64s(terms[1], other)]]
    }
}

/// A sum of terms, and that of their slopes.
struct Sum<S: Simd> {
    simd: S,
    terms: S::f64s,
    slopes: S::f64s,
}

impl<S: Simd> Sum<S> {
    #[inline(always)]
    fn none(simd: S) -> Self {
        Self { simd, terms: simd.splat_f64s(0.0), slopes: simd.splat_f64s(0.0) }
    }

    #[inline(always)]
    fn add(&mut self, [term, slope]: [S::f64s; 2]) {
        self.terms = self.simd.add_f64s(self.terms, term);
        self.slopes = self.simd.add_f64s(self.slopes, slope);
    }

    /// Adds those where `choice` is as it is `wanted`.
    #[inline(always)]
    fn add_some(&mut self, choice: S::m64s, [term, slope]: [S::f64s; 2], wanted: bool) {
        let (simd, zero) = (self.simd, self.simd.splat_f64s(0.0));
        self.add(match wanted {
            true => [simd.select_f64s(choice, term, zero), simd.select_f64s(choice, slope, zero)],
            false => [simd.select_f64s(choice, zero, term), simd.select_f64s(choice, zero, slope)],
        });
    }

    #[inline(always)]
    fn total(self) -> [f64; 2] {
        [self.simd.reduce_sum_f64s(self.terms), self.simd.reduce_sum_f64s(self.slopes)]
    }
}

/// The root of `constant + residues[0] / (poles[0] - x) + residues[1] / (poles[1] - x)` between the poles,
/// which is one of `constant * x² - a * x + b`.
#[inline(always)]
fn between(constant: f64, a: f64, b: f64) -> f64 {
    let root = (a * a - 4.0 * constant * b).abs().sqrt();
    if a <= 0.0 { (a - root) / (2.0 * constant) } else { 2.0 * b / (a + root) }
}

/// The root of the same beyond the second pole.
#[inline(always)]
fn beyond(constant: f64, a: f64, b: f64) -> f64 {
    let root = (a * a - 4.0 * constant * b).abs().sqrt();
    if a >= 0.0 { (a + root) / (2.0 * constant) } else { 2.0 * b / (a - root) }
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
    fn with_simd<S: Simd>(self, simd: S) {
        let gaps = self.gaps.chunks_exact_mut(self.secular.poles.len());
        for (k, (value, gaps)) in self.values.iter_mut().zip(gaps).enumerate() {
            *value = self.secular.root(simd, self.first + k, gaps);
        }
    }
}

/// The squares of the vector's elements from the one at `first` on.
struct SomeElements<'a, const SQUARED: bool> {
    secular: &'a Secular<SQUARED>,
    first: usize,
    gaps: &'a [f64],
    elements: &'a mut [f64],
}

impl<const SQUARED: bool> WithSimd for SomeElements<'_, SQUARED> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.secular.exact_squares(simd, self.first, self.gaps, self.elements);
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
    fn with_simd<S: Simd>(self, simd: S) {
        let elements = S::as_simd_f64s(self.elements).0;
        for vector in self.gaps.chunks_exact_mut(self.elements.len()) {
            let vector = S::as_mut_simd_f64s(vector).0;
            let mut squares = simd.splat_f64s(0.0);
            for (gap, &element) in vector.iter_mut().zip(elements) {
                *gap = simd.div_f64s(element, *gap);
                squares = simd.add_f64s(squares, simd.mul_f64s(*gap, *gap));
            }
            let factor = simd.splat_f64s(1.0 / simd.reduce_sum_f64s(squares).sqrt());
            vector.iter_mut().for_each(|element| *element = simd.mul_f64s(*element, factor));
        }
    }
}

/// Writes vectors, or the left ones that belong to them.
struct SomeFactors<'a, T> {
    roots: &'a Roots,
    first: usize,
    corner: Option<usize>,
    to: &'a mut [T],
}

impl<T: Real> WithSimd for SomeFactors<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Roots { values, vectors, poles, .. } = self.roots;
        let vectors = vectors.chunks_exact(poles.len()).zip(values).skip(self.first);
        for (to, (vector, &value)) in self.to.chunks_exact_mut(values.len()).zip(vectors) {
            let Some(corner) = self.corner else {
                to.iter_mut().zip(vector).for_each(|(to, &element)| *to = T::of(element));
                continue;
            };
            let [factor, own] = self.roots.left_factor(simd, vector, value, corner);
            for ((to, x), pole) in to.iter_mut().zip(vector).zip(poles) {
                *to = T::of(x * pole * factor);
            }
            to[corner] = T::of(own);
        }
    }
}
