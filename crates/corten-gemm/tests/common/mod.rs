//! What the tests of products share.

use corten_gemm::Isa;

/// The instructions that this processor has, up to the given ones.
pub(crate) fn levels_to(most: Isa) -> Vec<Isa> {
    let mut levels = vec![Isa::Portable];
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let avx512 = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        let more = is_x86_feature_detected!("avx512dq") && is_x86_feature_detected!("avx512vl");
        let has = [
            avx2 && is_x86_feature_detected!("f16c"),
            avx512 && more,
            is_x86_feature_detected!("avx512vnni"),
            is_x86_feature_detected!("avx512bf16"),
            corten_gemm::has_amx(),
        ];
        let all = [Isa::Avx2, Isa::Avx512, Isa::Avx512Vnni, Isa::Avx512Bf16, Isa::Amx];
        levels.extend(all.into_iter().zip(has).take_while(|&(_, has)| has).map(|(level, _)| level));
    }
    levels.retain(|&level| level <= most);
    levels
}
