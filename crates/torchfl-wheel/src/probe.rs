//! Tells bytes that deflate will not make smaller, from a sample.

/// Bytes in each of the samples.
const SAMPLE: usize = 2048;
const SAMPLES: usize = 8;
/// Below this a sample says too little, and compressing costs little.
const SMALLEST: usize = 64 << 10;
/// How much likelier two bytes of the sample are equal than two of evenly spread ones, in fifths: below 6/5
/// deflate gains nothing. Device code that is compressed already has 1.01 to 1.13, other code 1.6 and more.
const DENSE_FIFTHS: u64 = 6;

/// Whether `data` looks compressed or encrypted: in a sample, all byte values are about as frequent.
///
/// Integers only: the answer shows in a wheel's bytes, so it must be the same on every machine.
pub(crate) fn is_incompressible(data: &[u8]) -> bool {
    if data.len() < SMALLEST {
        return false;
    }
    let mut counts = [0_u64; 256];
    for sample in data.chunks(data.len() / SAMPLES).take(SAMPLES) {
        for byte in &sample[..SAMPLE.min(sample.len())] {
            counts[usize::from(*byte)] += 1;
        }
    }
    let total: u64 = counts.iter().sum();
    let pairs: u64 = counts.iter().map(|count| count * count).sum();
    pairs * 256 * 5 < total * total * DENSE_FIFTHS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(len: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let step = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..len).map(step).collect()
    }

    #[test]
    fn noise_is_and_text_is_not() {
        assert!(is_incompressible(&noise(1 << 20)));
        assert!(is_incompressible(&noise(SMALLEST)));
        let nearly_text: Vec<u8> = noise(1 << 20).iter().map(|byte| byte & 0x7f).collect();
        assert!(!is_incompressible(&nearly_text));
        assert!(!is_incompressible(&vec![0; 1 << 20]));
    }

    #[test]
    fn small_blocks_are_always_compressed() {
        assert!(!is_incompressible(&noise(SMALLEST - 1)));
        assert!(!is_incompressible(&[]));
    }
}
