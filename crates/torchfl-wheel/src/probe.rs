//! Tells bytes that deflate will not make smaller, from a sample.

/// Bytes in each of the samples.
const SAMPLE: usize = 2048;
const SAMPLES: usize = 8;
/// Below this a sample says too little, and compressing costs little.
const SMALLEST: usize = 64 << 10;
/// Bits a byte: device code that is compressed already has 7.95 and more, other code 6.5 and less.
const DENSE: f64 = 7.9;

/// Whether `data` looks compressed or encrypted: the order-0 entropy of a sample is near 8 bits a byte.
///
/// Depends on the bytes only, and on IEEE arithmetic whose result is far from the bound in practice.
pub(crate) fn is_incompressible(data: &[u8]) -> bool {
    if data.len() < SMALLEST {
        return false;
    }
    let mut counts = [0_u32; 256];
    let step = data.len() / SAMPLES;
    for sample in data.chunks(step).take(SAMPLES) {
        for byte in &sample[..SAMPLE.min(sample.len())] {
            counts[usize::from(*byte)] += 1;
        }
    }
    entropy(&counts) > DENSE
}

fn entropy(counts: &[u32; 256]) -> f64 {
    let total = f64::from(counts.iter().sum::<u32>());
    let bits = |count: &u32| {
        let share = f64::from(*count) / total;
        share * share.log2()
    };
    -counts.iter().filter(|count| **count > 0).map(bits).sum::<f64>()
}
