//! Sums of dense columns, as many of them side by side as their sums have room.

use super::summand::Summand;
use super::{Higher, Levels, ReducedBlock, rows};
use crate::reduce::buffers::filled;
use std::mem::MaybeUninit;

/// Groups of four vectors of columns at once. Of wide matrices each row is then read for some kilobytes,
/// and the rows of a level are read side by side: processors foresee what follows in some twenty places
/// at once, but not in as many as a column of long rows has.
pub(super) const MOST: i64 = 32;

impl ReducedBlock {
    /// Sums groups of four vectors of columns, of which `first` is the first column.
    ///
    /// # Safety
    /// As for [`run`](Self::run); there must be as many columns, and at most [`MOST`] groups.
    #[inline(always)]
    pub(super) unsafe fn groups_of_columns<T: Summand>(self, first: i64, groups: i64) {
        let (n, levels) = (self.length, Levels::of(self.length));
        if n < levels.step() {
            // SAFETY: the caller's.
            return unsafe { self.groups_of_few_rows::<T>(first, groups) };
        }
        let mut room = [MaybeUninit::uninit(); MOST as usize];
        let higher = filled(&mut room[..groups as usize], Higher::<T::Vector>::zero());
        let group = |index: i64| first + index * 4 * T::LANES as i64;
        let mut i = 0;
        // SAFETY: the loads stay within the rows and the columns of the groups.
        unsafe {
            while i + levels.step() <= n {
                let end = i + levels.step();
                for (higher, index) in higher.iter_mut().zip(0..groups) {
                    let lowest = rows(i..end, &|i, k| self.vector::<T>(i, group(index), k));
                    higher.flush(lowest, end, levels);
                }
                i = end;
            }
            for (higher, index) in higher.iter().zip(0..groups) {
                let lowest = rows(i..n, &|i, k| self.vector::<T>(i, group(index), k));
                self.add_group::<T>(group(index), higher.total(lowest));
            }
        }
    }

    /// As [`groups_of_columns`](Self::groups_of_columns), where level 0 is not full.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn groups_of_few_rows<T: Summand>(self, first: i64, groups: i64) {
        for index in 0..groups {
            let group = first + index * 4 * T::LANES as i64;
            // SAFETY: the loads stay within the rows and the columns of the group.
            unsafe {
                let sums = rows(0..self.length, &|i, k| self.vector::<T>(i, group, k));
                self.add_group::<T>(group, sums);
            }
        }
    }

    /// # Safety
    /// As for [`run`](Self::run).
    #[inline(always)]
    unsafe fn add_group<T: Summand>(&self, column: i64, sums: [T::Vector; 4]) {
        for (sum, k) in sums.iter().zip(0..) {
            // SAFETY: the caller's.
            unsafe { self.add_lanes::<T>(column + k * T::LANES as i64, sum) };
        }
    }

    /// Vector `k` of a row from a column on.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    #[inline(always)]
    unsafe fn vector<T: Summand>(&self, row: i64, column: i64, k: i64) -> T::Vector {
        // SAFETY: the caller's.
        unsafe { T::load_outer(self.source::<T>(row, column + k * T::LANES as i64)) }
    }
}
