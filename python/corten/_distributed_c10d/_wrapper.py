"""A back end that looks whether all ranks run the same before they run it."""

from __future__ import annotations

import corten

from ._enums import OpType
from ._groups import Backend
from ._works import done

#: Calls whose tensors need not have one size on all ranks.
_ANY_SIZE = ("alltoall", "alltoall_base")
_POINT_TO_POINT = ("send", "recv", "recv_anysource")


class _ProcessGroupWrapper(Backend):
    """What ``TORCH_DISTRIBUTED_DEBUG=DETAIL`` puts around a back end.

    Args:
        pg: The back end.
        gloo_pg: One over the CPU with the same ranks, through which they compare what they are about to run.
    """

    def __init__(self, pg, gloo_pg):
        super().__init__(pg.rank(), pg.size())
        self.wrapped_pg, self._watch, self._number = pg, gloo_pg, 0
        self._recorded = None

    def name(self):
        """The name of what is wrapped."""
        return self.wrapped_pg.name()

    @property
    def options(self):
        """The options of what is wrapped."""
        return self.wrapped_pg.options

    def get_error(self):
        """What happened to what is wrapped."""
        return self.wrapped_pg.get_error()

    def set_timeout(self, timeout):
        """The time that later calls have."""
        self.wrapped_pg.set_timeout(timeout)

    def abort(self):
        """Ends what runs."""
        self.wrapped_pg.abort()

    def shutdown(self):
        """Gives the connections up."""
        self.wrapped_pg.shutdown()

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """The barrier of the back end that compares."""
        self._watch.monitored_barrier(timeout, wait_all_ranks)

    def eager_connect_single_device(self, device=None):
        """Connects what is wrapped."""
        self.wrapped_pg.eager_connect_single_device(device)

    def _start_coalescing(self):
        self._recorded = []

    def _end_coalescing(self):
        recorded, self._recorded = self._recorded, None
        calls = [each for some, _ in recorded for each in some]
        outputs = [tensor for _, some in recorded for tensor in some]
        if not calls:
            return done([])
        return self.wrapped_pg._begin("coalesced", (), calls, None, outputs, OpType.COALESCED)

    def _get_sequence_number_for_group(self):
        return self.wrapped_pg._get_sequence_number_for_group()

    def _begin(self, name, arguments, calls, opts, outputs, op_type):
        if name not in _POINT_TO_POINT:
            self._number += 1
            self._compare(self._fingerprint(name, calls, op_type))
        if self._recorded is not None:
            self._recorded.append((calls, outputs))
            return None
        return getattr(self.wrapped_pg, name)(*arguments)

    def _fingerprint(self, name, calls, op_type):
        """What the ranks must have alike, as a text."""
        parts = [f"SequenceNumber={self._number}", f"OpType={op_type.name}"]
        tensors = [tensor for each in calls for tensor in (each[2] or each[1])]
        if name == "scatter":
            tensors = [tensor for each in calls for tensor in each[1]]
        if tensors and name not in _ANY_SIZE:
            parts.append(f"TensorShape=[{', '.join(str(list(tensor.shape)) for tensor in tensors)}]")
        if tensors:
            parts.append(f"TensorDtypes={', '.join(sorted({str(tensor.dtype) for tensor in tensors}))}")
            kinds = sorted({tensor.device.type for tensor in tensors})
            parts.append(f"TensorDeviceTypes={', '.join(kinds)}")
        return f"CollectiveFingerPrint({', '.join(parts)})"

    def _compare(self, own):
        """Raises where another rank is about to run something else, or does not come."""
        try:
            self._watch.monitored_barrier(self.options._timeout, True)
        except RuntimeError as error:
            raise RuntimeError(
                f"ProcessGroupWrapper: Monitored Barrier encountered error running collective: {own}. "
                f"Error: \n {error}"
            ) from error
        data = own.encode()
        lengths = [corten.zeros(1, dtype=corten.int64) for _ in range(self.size())]
        self._watch.allgather([lengths], [corten.tensor([len(data)])]).wait()
        most = max(int(length) for length in lengths)
        padded = corten.tensor(list(data.ljust(most, b"\0")), dtype=corten.uint8)
        others = [corten.zeros(most, dtype=corten.uint8) for _ in lengths]
        self._watch.allgather([others], [padded]).wait()
        for rank, (length, other) in enumerate(zip(lengths, others)):
            text = bytes(other.tolist()[: int(length)]).decode()
            if text != own:
                raise RuntimeError(
                    f"Detected mismatch between collectives on ranks. Rank {self.rank()} is running collective: "
                    f"{own}, but Rank {rank} is running collective: {text}."
                )
