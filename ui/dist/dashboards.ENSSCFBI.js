import"./c.DD36VWPP.js";import"./c.KWGM75JS.js";import"./c.MOAVTL4V.js";import"./c.3KVO7RNL.js";import"./c.TCNNIQG2.js";
