"""Meshes of ranks, with ranks that are threads."""

import copy
import pickle
import unittest
import warnings

import corten.distributed as dist
from corten.distributed.device_mesh import DeviceMesh, _mesh_resources, init_device_mesh
from ranks_as_threads import ranks


class Meshes(unittest.TestCase):
    @ranks(4)
    def test_two_dimensions(self):
        rank = dist.get_rank()
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        self.assertEqual(repr(mesh), "DeviceMesh((dp=2, tp=2), 'cpu', stride=(2, 1))")
        self.assertEqual((mesh.shape, mesh.ndim, mesh.size(), mesh.size(1)), ((2, 2), 2, 4, 2))
        self.assertEqual(mesh.mesh.tolist(), [[0, 1], [2, 3]])
        self.assertEqual(mesh.get_coordinate(), divmod(rank, 2))
        self.assertEqual((mesh.get_local_rank("dp"), mesh.get_local_rank(1)), divmod(rank, 2))
        self.assertEqual(dist.get_process_group_ranks(mesh.get_group("dp")), [rank % 2, rank % 2 + 2])
        self.assertEqual([each.group_desc for each in mesh.get_all_groups()], ["mesh_dp", "mesh_tp"])
        dp, tp = mesh["dp"], mesh["tp"]
        self.assertEqual(tp.mesh.tolist(), [rank // 2 * 2, rank // 2 * 2 + 1])
        self.assertEqual((dp.get_coordinate(), dp.get_local_rank()), ((rank // 2,), rank // 2))
        self.assertIs(tp.get_group(), mesh.get_group("tp"))
        self.assertEqual((dp._get_root_mesh_dim(), tp._get_root_mesh_dim()), (0, 1))
        self.assertIs(mesh["dp", "tp"], mesh)

    @ranks(4)
    def test_flattening_and_cutting(self):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        flat = mesh._flatten()
        self.assertEqual((flat.mesh_dim_names, flat.mesh.tolist()), (("dp_tp",), [0, 1, 2, 3]))
        self.assertIs(mesh._flatten(), flat)
        cut = flat._unflatten(0, (2, 2), ("a", "b"))
        self.assertEqual(cut.mesh.tolist(), [[0, 1], [2, 3]])
        self.assertEqual(dist.get_process_group_ranks(cut.get_group("b")), dist.get_process_group_ranks(mesh.get_group("tp")))
        joined = DeviceMesh._concatenate([mesh["dp"], mesh["tp"]])
        self.assertEqual(joined, mesh)
        with self.assertRaisesRegex(ValueError, "must be equal for unflatten"):
            flat._unflatten(0, (3, 2), ("a", "b"))

    @ranks(4)
    def test_of_groups(self):
        rank = dist.get_rank()
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        group = mesh.get_group("dp")
        made = DeviceMesh.from_group(group, "cpu")
        self.assertEqual(made.mesh.tolist(), [rank % 2, rank % 2 + 2])
        self.assertIs(made.get_group(), group)
        both = DeviceMesh.from_group(mesh.get_all_groups(), "cpu", [[0, 1], [2, 3]], mesh_dim_names=("dp", "tp"))
        self.assertEqual(both, mesh)
        with self.assertRaisesRegex(ValueError, "Must pass mesh if passing multiple"):
            DeviceMesh.from_group(mesh.get_all_groups(), "cpu")
        with self.assertRaisesRegex(ValueError, "Invalid mesh"):
            DeviceMesh.from_group(group, "cpu", [0, 1, 2])

    @ranks(4)
    def test_other_orders(self):
        rank = dist.get_rank()
        mesh = DeviceMesh("cpu", [[3, 1], [2, 0]], mesh_dim_names=("p", "q"))
        self.assertEqual(mesh.get_coordinate(), {3: (0, 0), 1: (0, 1), 2: (1, 0), 0: (1, 1)}[rank])
        self.assertEqual(mesh["q"].mesh.tolist(), [3, 1] if rank in (1, 3) else [2, 0])
        some = DeviceMesh("cpu", [0, 2])
        self.assertEqual(some.get_coordinate(), {0: (0,), 2: (1,)}.get(rank))
        self.assertEqual([each.mesh.tolist() for each in mesh._get_all_submeshes("p")], [[3, 2], [1, 0]])

    @ranks(2)
    def test_identity(self):
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("x",))
        self.assertEqual(mesh, copy.deepcopy(mesh))
        self.assertEqual(mesh, pickle.loads(pickle.dumps(mesh)))
        self.assertEqual(hash(mesh), hash(init_device_mesh("cpu", (2,), mesh_dim_names=("x",))))
        self.assertNotEqual(mesh, init_device_mesh("cpu", (2,)))
        self.assertIs(mesh.get_group(), dist.group.WORLD)
        with mesh:
            self.assertIs(_mesh_resources.get_current_mesh(), mesh)
        with self.assertRaisesRegex(RuntimeError, "No device mesh is currently active"):
            _mesh_resources.get_current_mesh()

    @ranks(4)
    def test_wrong_arguments(self):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("x", "y"))
        wrong = (
            (lambda: init_device_mesh("cpu", (5,)), RuntimeError, "should not be bigger than default world size"),
            (lambda: init_device_mesh("cpu:0", (2,)), RuntimeError, "Device type with index is not supported"),
            (lambda: init_device_mesh("cpu", (1, 2), mesh_dim_names=("a", "a")), RuntimeError, "must be unique"),
            (lambda: init_device_mesh("cpu", (2,), mesh_dim_names=("a", "b")), RuntimeError, "same length"),
            (lambda: mesh["z"], KeyError, "Invalid mesh_dim_names"),
            (lambda: mesh["y", "x"], KeyError, "ascending order"),
            (lambda: mesh.get_group(), RuntimeError, "`mesh_dim` needs to be specified"),
            (lambda: mesh.get_local_rank(), RuntimeError, "`mesh_dim` needs to be specified"),
            (lambda: mesh.get_group("z"), KeyError, "does not exist"),
            (lambda: init_device_mesh("cpu", (2,))["x"], RuntimeError, "without mesh_dim_names"),
            (lambda: mesh["x"].abort(), RuntimeError, "not supported on a submesh"),
        )
        for call, kind, text in wrong:
            with self.assertRaisesRegex(kind, text), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call()


if __name__ == "__main__":
    unittest.main()
