columns: calls in the second up to then; the cap is 50
digits:  calls that arrived in each 100 ms
  50 ┤          
  40 ┤          
  30 ┤       ▃▇█
  20 ┤     ▄████
  10 ┤   ▄██████
     └┬─────────
      ···5555451
      0 s
