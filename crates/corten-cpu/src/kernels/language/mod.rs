//! What transformer language models do between their products.

mod attention;
mod cache;
mod products;
mod rotary;

pub use attention::kv_cache_attention;
pub use cache::{kv_cache_write_, quantize_rows};
pub use rotary::rotary_embedding;
