import"./c.5EDT2PQ4.js";import"./c.ZYP4AB4J.js";import"./c.BMQZPBCI.js";import"./c.M5FQ55NN.js";import"./c.JX476QQJ.js";
