## Trains a perceptron on XOR with the bindings of bindings.py.

import corten, std/options

manualSeed(0)
let
  x = tensor([0f32, 0, 0, 1, 1, 0, 1, 1], [4, 2])
  y = tensor([0f32, 1, 1, 0], [4, 1])
  w1 = requiresGrad(randn([8, 2]))
  b1 = requiresGrad(zeros([8]))
  w2 = requiresGrad(mul(randn([1, 8]), 0.5))
  b2 = requiresGrad(zeros([1]))

var last = 0.0
for epoch in 0 ..< 500:
  let loss = mse_loss(linear(tanh(linear(x, w1, some(b1))), w2, some(b2)), y)
  loss.backward()
  last = loss.number
  noGrad:
    for parameter in [w1, b1, w2, b2]:
      subInplace(parameter, parameter.grad, alpha = 0.2)
      parameter.clearGrad()
echo "trained in Nim: loss ", last
doAssert last < 0.01
doAssertRaises(CortenError): discard matmul(x, x)
