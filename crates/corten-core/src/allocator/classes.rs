//! Size classes: steps of 64 bytes up to 512, then four per doubling up to 1 MiB.

/// How many classes there are. Class numbers fit into the six low bits of an aligned address.
pub(super) const COUNT: usize = 8 + 4 * 11;
const _: () = assert!(COUNT < 64);

/// The size of the last class.
pub(super) const LARGEST: usize = 1 << 20;

static SIZES: [u32; COUNT] = {
    let mut sizes = [0; COUNT];
    let mut class = 0;
    while class < COUNT {
        sizes[class] = if class < 8 {
            64 * (class as u32 + 1)
        } else {
            let (doubling, quarter) = ((class - 8) / 4, (class - 8) % 4);
            (512 << doubling) + (128 << doubling) * (quarter as u32 + 1)
        };
        class += 1;
    }
    sizes
};

/// The class of the smallest blocks of at least `nbytes` bytes, for 1 to `LARGEST`.
#[inline(always)]
pub(super) fn of(nbytes: usize) -> usize {
    let last = nbytes - 1;
    if last < 512 {
        last / 64
    } else {
        let log = last.ilog2() as usize;
        8 + 4 * (log - 9) + ((last >> (log - 2)) & 3)
    }
}

/// The size of the blocks of a class.
#[inline(always)]
pub(super) fn size(class: usize) -> usize {
    SIZES[class] as usize
}

/// How many blocks of a class a thread keeps.
pub(super) fn limit(class: usize) -> u32 {
    ((512 << 10) / size(class) as u32).clamp(4, 128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_tight() {
        assert_eq!(size(COUNT - 1), LARGEST);
        for nbytes in (1..5000).chain((5000..=LARGEST).step_by(97)).chain([LARGEST]) {
            let class = of(nbytes);
            assert!(size(class) >= nbytes, "{nbytes}");
            assert!(class == 0 || size(class - 1) < nbytes, "{nbytes}");
            assert!(size(class).is_multiple_of(64));
        }
    }
}
