"""Dispatch keys from Python: sets, guards, fallbacks, kernels with the key set, schemas and tags of overloads."""

import importlib
import unittest

from module_under_test import torch

C = torch._C
Key, Keys = C.DispatchKey, C.DispatchKeySet
aten = torch.ops.aten
library = importlib.import_module(f"{torch.__name__}.library")


class Sets(unittest.TestCase):
    """``DispatchKeySet`` and the keys of tensors and threads."""

    def test_tensor(self):
        keys = C._dispatch_keys(torch.ones(2))
        self.assertEqual(repr(keys), "DispatchKeySet(CPU, ADInplaceOrView, AutogradCPU, AutocastCPU)")
        self.assertEqual(keys.raw_repr(), 0x9400010001)
        self.assertEqual(keys.highestPriorityTypeId(), Key.AutocastCPU)
        self.assertTrue(keys.has(Key.CPU))
        self.assertFalse(keys.has(Key.CUDA))

    def test_operations(self):
        keys = Keys(Key.CPU) | Keys(Key.AutogradCPU)
        self.assertEqual((keys - Keys(Key.AutogradCPU)).highestPriorityTypeId(), Key.CPU)
        self.assertEqual(Keys.from_raw_repr(keys.raw_repr()).raw_repr(), keys.raw_repr())
        self.assertTrue(keys.add(Key.Python).has(Key.Python))
        self.assertFalse(keys.remove(Key.CPU).has(Key.CPU))
        self.assertFalse(C._dispatch_keyset_full_after(Key.Functionalize).has(Key.AutogradCPU))
        self.assertTrue(C._dispatch_keyset_full_after(Key.Functionalize).has(Key.Python))

    def test_numbers(self):
        for name, number in (("Undefined", 0), ("CPU", 49), ("Meta", 64), ("AutogradCPU", 134), ("AutogradMeta", 149),
                             ("CompositeImplicitAutograd", 151), ("CompositeExplicitAutograd", 154)):
            self.assertEqual(int(getattr(Key, name)), number, name)

    def test_thread(self):
        self.assertEqual(repr(C._dispatch_tls_local_include_set()), "DispatchKeySet(BackendSelect, ADInplaceOrView)")
        self.assertFalse(C._dispatch_tls_is_dispatch_key_excluded(Key.AutogradCPU))
        with C._ExcludeDispatchKeyGuard(Keys(Key.AutogradCPU)):
            self.assertTrue(C._dispatch_tls_is_dispatch_key_excluded(Key.AutogradCPU))
            self.assertFalse((torch.ones(2, requires_grad=True) * 2).requires_grad)
        self.assertFalse(C._dispatch_tls_is_dispatch_key_excluded(Key.AutogradCPU))
        with C._IncludeDispatchKeyGuard(Key.Python):
            self.assertTrue(C._dispatch_tls_is_dispatch_key_included(Key.Python))
        self.assertFalse(C._dispatch_tls_is_dispatch_key_included(Key.Python))

    def test_names(self):
        self.assertEqual(C._dispatch_key_parse("AutogradCPU"), Key.AutogradCPU)
        with self.assertRaisesRegex(RuntimeError, "could not parse dispatch key: Foo"):
            C._dispatch_key_parse("Foo")
        self.assertTrue(C._dispatch_is_included_in_alias(Key.AutogradCPU, Key.Autograd))
        self.assertTrue(C._dispatch_is_alias_key(Key.Autograd))
        self.assertEqual(C._functionality_to_backend_keys(Key.AutogradFunctionality)[0], Key.AutogradCPU)


class Kernels(unittest.TestCase):
    """Kernels that take the key set, and kernels for all operators."""

    def test_with_keyset(self):
        seen = []
        made = library.Library("test_dispatch_keys_keyset", "DEF")
        made.define("twice(Tensor x) -> Tensor")

        def kernel(keys, x):
            seen.append(keys.highestPriorityTypeId())
            return x * 2

        made.impl("twice", kernel, "CPU", with_keyset=True)
        self.assertEqual(torch.ops.test_dispatch_keys_keyset.twice(torch.ones(2)).tolist(), [2.0, 2.0])
        self.assertEqual(seen, [Key.CPU])
        made._destroy()

    def test_fallback(self):
        seen, mode = [], "TESTING_ONLY_GenericMode"
        key = Keys(C._dispatch_key_parse(mode))

        def kernel(op, *args, **kwargs):
            seen.append(str(op))
            with C._ForceDispatchKeyGuard(
                C._dispatch_tls_local_include_set() - key,
                C._dispatch_tls_local_exclude_set(),
            ):
                return op(*args, **kwargs)

        made = library.Library("_", "IMPL", mode)
        made.fallback(kernel)
        include = C._dispatch_tls_local_include_set() | key
        with C._ForceDispatchKeyGuard(include, C._dispatch_tls_local_exclude_set()):
            found = torch.ones(2).cos()
        made._destroy()
        self.assertIn("aten.cos.default", seen)
        self.assertEqual(found.tolist(), torch.ones(2).cos().tolist())

    def test_redispatch(self):
        x = torch.ones(2, requires_grad=True)
        below = C._dispatch_keyset_full_after(Key.AutogradCPU) & C._dispatch_keys(x)
        with C._ExcludeDispatchKeyGuard(Keys(Key.AutogradCPU)):
            found = aten.cos.default.redispatch(below - Keys(Key.ADInplaceOrView), x)
        self.assertFalse(found.requires_grad)
        self.assertEqual(found.tolist(), x.detach().cos().tolist())

    def test_tables(self):
        self.assertTrue(C._dispatch_has_kernel_for_dispatch_key("aten::relu", "CPU"))
        self.assertTrue(C._dispatch_has_kernel_for_dispatch_key("aten::linear", "CompositeImplicitAutograd"))
        self.assertFalse(C._dispatch_has_kernel_for_dispatch_key("aten::relu", "CompositeImplicitAutograd"))
        self.assertIn("schema: aten::relu(Tensor self) -> Tensor", C._dispatch_dump("aten::relu"))
        self.assertIn("CPU: ", C._dispatch_dump_table("aten::relu"))


class Overloads(unittest.TestCase):
    """What overloads say of themselves."""

    def test_schema(self):
        schema = aten.add.Tensor._schema
        self.assertEqual(str(schema), "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")
        self.assertEqual((schema.name, schema.overload_name), ("aten::add", "Tensor"))
        self.assertEqual([one.name for one in schema.arguments], ["self", "other", "alpha"])
        self.assertEqual([str(one.type) for one in schema.arguments], ["Tensor", "Tensor", "number"])
        self.assertEqual(schema.arguments[2].default_value, 1)
        self.assertTrue(schema.arguments[2].kwarg_only)
        self.assertFalse(schema.is_mutable)
        written = aten.add_.Tensor._schema
        self.assertTrue(written.is_mutable)
        self.assertTrue(written.arguments[0].alias_info.is_write)
        self.assertEqual(written.arguments[0].alias_info.before_set, {"a"})
        self.assertEqual(str(aten.split.Tensor._schema.returns[0].type), "List[Tensor]")

    def test_tags(self):
        names = {tag.name for tag in aten.add.Tensor.tags}
        self.assertLessEqual({"core", "pointwise", "pt2_compliant_tag"}, names)
        self.assertIn("inplace", {tag.name for tag in aten.add_.Tensor.tags})
        self.assertIn("nondeterministic_seeded", {tag.name for tag in aten.rand.default.tags})
        self.assertIn("data_dependent_output", {tag.name for tag in aten._local_scalar_dense.default.tags})
        self.assertTrue(aten.view.default.is_view)
        self.assertFalse(aten.add.Tensor.is_view)

    def test_decompose(self):
        x, w = torch.ones(2, 3), torch.ones(4, 3)
        self.assertEqual(aten.linear.default.decompose(x, w).tolist(), torch.nn.functional.linear(x, w).tolist())
        self.assertIs(aten.mm.default.decompose(x, w.t()), NotImplemented)


class ZeroTensors(unittest.TestCase):
    """Tensors that are known to be zero."""

    def test_rules(self):
        zero, x = torch._efficientzerotensor((2, 3)), torch.arange(6.0).view(2, 3)
        self.assertTrue(zero._is_zerotensor())
        self.assertTrue((zero * x)._is_zerotensor())
        self.assertTrue((zero + zero)._is_zerotensor())
        self.assertTrue((zero / (x + 1))._is_zerotensor())
        self.assertFalse((zero + x)._is_zerotensor())
        self.assertEqual((zero + x).tolist(), x.tolist())
        self.assertEqual((x - zero).tolist(), x.tolist())
        self.assertEqual(zero.sum().item(), 0)
        self.assertFalse(zero.clone()._is_zerotensor())
        self.assertEqual(torch.mm(zero, x.t()).tolist(), [[0.0, 0.0]] * 2)
        self.assertTrue(zero.view(3, 2)._is_zerotensor())

    def test_immutable(self):
        zero = torch._efficientzerotensor(3)
        with self.assertRaisesRegex(RuntimeError, "ZeroTensors are immutable"):
            zero.add_(1)
        x = torch.ones(3)
        x.mul_(zero)
        self.assertEqual(x.tolist(), [0.0] * 3)


if __name__ == "__main__":
    unittest.main()
