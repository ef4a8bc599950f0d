//! Facts measured on torch 2.15, from `tests/goldens/core_*.txt`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::too_many_lines)]

use corten_core::*;

fn golden(name: &str) -> Vec<Vec<String>> {
    let path = format!("{}/../../tests/goldens/core_{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect(&path);
    text.lines().map(|line| line.split(';').map(str::to_owned).collect()).collect()
}

fn numbers(text: &str) -> Vec<i64> {
    text.split(',').filter(|part| !part.is_empty()).map(|part| part.parse().unwrap()).collect()
}

fn dtype(name: &str) -> DType {
    DType::from_name(name).expect(name)
}

/// A tensor of any geometry over a storage of any size.
fn strided(sizes: &[i64], strides: &[i64]) -> TensorBase {
    let storage = Storage::new(0, Device::CPU).unwrap();
    let keys = KeySet::of(&[DispatchKey::CPU]);
    TensorBase::new_with_storage(storage, DType::Float32, keys, sizes, strides, 0).unwrap()
}

#[test]
fn contiguity_flags() {
    for line in golden("contiguity") {
        let (sizes, strides) = (numbers(&line[0]), numbers(&line[1]));
        let t = strided(&sizes, &strides);
        let flags = [
            t.is_contiguous(),
            t.is_contiguous_for(MemoryFormat::ChannelsLast),
            t.is_contiguous_for(MemoryFormat::ChannelsLast3d),
            t.is_non_overlapping_and_dense(),
        ];
        let expected: Vec<bool> = numbers(&line[2]).iter().map(|&flag| flag != 0).collect();
        assert_eq!(flags.as_slice(), expected, "sizes {sizes:?} strides {strides:?}");
    }
}

#[test]
fn view_strides() {
    for line in golden("views") {
        let [sizes, strides, shape] = [0, 1, 2].map(|column| numbers(&line[column]));
        let result = geometry::compute_view_strides(&sizes, &strides, &shape);
        let expected = match line[3].as_str() {
            "none" => None,
            "scalar" => Some(vec![]),
            text => Some(numbers(text)),
        };
        let result = result.map(|dims| dims.to_vec());
        assert_eq!(result, expected, "{sizes:?} {strides:?} as {shape:?}");
    }
}

#[test]
fn promotion_table() {
    for line in golden("promotion") {
        let (a, b) = (dtype(&line[0]), dtype(&line[1]));
        let expected = (line[2] != "error").then(|| dtype(&line[2]));
        assert_eq!(promote_types(a, b).ok(), expected, "{a} {b}");
        assert_eq!(can_cast(a, b), line[3] == "1", "{a} to {b}");
    }
}

#[test]
fn result_types() {
    let operand = |state: &mut ResultTypeState, text: &str| -> Result<()> {
        let scalar: Scalar = match text {
            "True" => true.into(),
            "2" => 2.into(),
            "1.5" => 1.5.into(),
            "1j" => Complex::new(0.0, 1.0).into(),
            tensor => {
                let (name, rank) = tensor.split_once('/').unwrap();
                return state.push_tensor(dtype(name), rank.parse().unwrap(), false);
            }
        };
        state.push_scalar(&scalar)
    };
    for line in golden("result_types") {
        set_default_dtype(dtype(&line[0])).unwrap();
        let mut state = ResultTypeState::new();
        let result = operand(&mut state, &line[1])
            .and_then(|()| operand(&mut state, &line[2]))
            .and_then(|()| state.finish());
        let expected = (line[3] != "error").then(|| dtype(&line[3]));
        assert_eq!(result.ok(), expected, "{line:?}");
    }
    set_default_dtype(DType::Float32).unwrap();
}

/// The bits of `value` as an element of type `T`, seen through a view of bytes.
fn bits<T: Element>(value: f32) -> Result<u64> {
    let tensor = TensorBase::empty(&[1], T::DTYPE)?;
    Writer::<T>::new(&tensor)?[0] = cast(value);
    let size = T::DTYPE.itemsize();
    let bytes = tensor.as_view_with(DType::UInt8, tensor.key_set(), &[size as i64], &[1], 0)?;
    let bytes = Reader::<u8>::new(&bytes)?;
    Ok(bytes.iter().rev().fold(0, |bits, &byte| (bits << 8) | u64::from(byte)))
}

fn cast_bits(value: f32, target: &str) -> u64 {
    match_dtype!(dtype(target), "cast", AllNoComplex, T => bits::<T>(value)).unwrap()
}

#[test]
fn casts_from_f32() {
    let lines = golden("casts");
    let targets: Vec<&str> = lines[0][0].split(',').collect();
    for line in &lines[1..] {
        let value = f32::from_bits(line[0].parse().unwrap());
        let expected: Vec<u64> = line[1].split(',').map(|part| part.parse().unwrap()).collect();
        for (target, expected) in targets.iter().zip(expected) {
            let found = cast_bits(value, target);
            assert_eq!(found, expected, "{value:e} ({:#x}) to {target}", value.to_bits());
        }
    }
}

#[test]
fn float8_values() {
    for line in golden("float8") {
        for (code, expected) in line[1].split(',').enumerate() {
            let code = code as u8;
            let value = match line[0].as_str() {
                "float8_e5m2" => F8E5M2(code).to_f32(),
                "float8_e4m3fn" => F8E4M3FN(code).to_f32(),
                "float8_e5m2fnuz" => F8E5M2FNUZ(code).to_f32(),
                "float8_e4m3fnuz" => F8E4M3FNUZ(code).to_f32(),
                "float8_e8m0fnu" => F8E8M0FNU(code).to_f32(),
                other => panic!("{other}"),
            };
            let found = if value.is_nan() { "nan".to_owned() } else { value.to_bits().to_string() };
            assert_eq!(found, expected, "{} code {code:#x}", line[0]);
        }
    }
}

#[test]
fn generator_states() {
    for line in golden("generator") {
        let generator = Generator::cpu(line[0].parse().unwrap());
        for _ in 0..line[1].parse().unwrap() {
            generator.lock().random();
        }
        let state = generator.get_state();
        let hex: String = state.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, line[2], "seed {} after {} draws", line[0], line[1]);
        let restored = Generator::cpu(0);
        restored.set_state(&state).unwrap();
        for expected in numbers(&line[3]) {
            assert_eq!(i64::from(restored.lock().random() % (1 << 27)), expected);
        }
    }
}
