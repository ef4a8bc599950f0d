//! What the tests of products share.

use corten_gemm::Instructions;

/// The instructions that this processor has, up to the given ones.
pub(crate) fn levels_to(most: Instructions) -> Vec<Instructions> {
    let mut levels = vec![Instructions::Portable];
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let wide = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        let more = is_x86_feature_detected!("avx512dq") && is_x86_feature_detected!("avx512vl");
        let has = [
            avx2 && is_x86_feature_detected!("f16c"),
            wide && more,
            is_x86_feature_detected!("avx512vnni"),
            is_x86_feature_detected!("avx512bf16"),
            corten_gemm::has_amx(),
        ];
        let all = [
            Instructions::Avx2,
            Instructions::Avx512,
            Instructions::Avx512Vnni,
            Instructions::Avx512Bf16,
            Instructions::Amx,
        ];
        levels.extend(all.into_iter().zip(has).take_while(|&(_, has)| has).map(|(level, _)| level));
    }
    levels.retain(|&level| level <= most);
    levels
}
