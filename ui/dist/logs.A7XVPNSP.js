import"./c.PSUFH27V.js";import"./c.I3VLC5XH.js";import"./c.M5FQ55NN.js";import"./c.JX476QQJ.js";
