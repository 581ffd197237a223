import"./c.YKKVCJ62.js";import"./c.2Z2MO7EG.js";import"./c.3KVO7RNL.js";import"./c.TCNNIQG2.js";
